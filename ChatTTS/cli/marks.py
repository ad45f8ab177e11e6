"""The options of marks and signatures of the files that commands write."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from .console import UsageError

if TYPE_CHECKING:
    from ..audio.content_credentials import Credentials
    from ..config.mark import Mark


def add_mark_options(group: Any, *, signs: bool = True) -> None:
    """Add the options of marks, and of manifests where the command ``signs``."""
    group.add_argument(
        "--no-mark",
        action="store_true",
        help="leave out the tags which say that the sound is synthetic, by what and when",
    )
    group.add_argument(
        "--mark-producer",
        default="",
        metavar="NAME",
        help="name or code of the service that offers the sound, for these tags",
    )
    if not signs:
        return
    group.add_argument(
        "--c2pa-cert",
        type=Path,
        metavar="FILE",
        help="sign what is written with this certificate (PEM, with those that signed it), in a "
        "C2PA manifest: wav, flac, mp3, m4a, m4b; needs the extra `c2pa`",
    )
    group.add_argument(
        "--c2pa-key", type=Path, metavar="FILE", help="the certificate's private key (PEM)"
    )


def mark_of(args: argparse.Namespace) -> Mark | None:
    """Return the mark that is asked for, without a day; ``None`` for none.

    Raises:
        UsageError: the producer's name cannot be used, or is given with --no-mark.
        ConfigError: ``SOURCE_DATE_EPOCH`` is no time.
    """
    from ..config.mark import Mark, today

    if args.no_mark:
        if args.mark_producer:
            raise UsageError("--mark-producer is a part of the mark: leave out --no-mark")
        return None
    today()  # a wrong SOURCE_DATE_EPOCH is told before the work
    try:
        return Mark(producer=args.mark_producer)
    except ConfigError as error:
        raise UsageError(f"--mark-producer: {error}") from error


def credentials_of(args: argparse.Namespace) -> Credentials | None:
    """Return the certificate and key, which fit together; ``None`` without them.

    Raises:
        UsageError: one of the two is missing.
        ConfigError: they cannot be used, or a package is missing.
    """
    if (args.c2pa_cert is None) != (args.c2pa_key is None):
        raise UsageError("--c2pa-cert and --c2pa-key go together: give both or none")
    if args.c2pa_cert is None:
        return None
    from ..audio.content_credentials import Credentials

    credentials = Credentials(args.c2pa_cert, args.c2pa_key)
    credentials.check()
    return credentials
