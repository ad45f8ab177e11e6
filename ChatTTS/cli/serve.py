"""``chattts serve``: REST, WebSocket and gRPC, and a page to try them."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import EngineUnavailableError
from .console import Console, UsageError
from .model import choose_model, load_chat
from .options import add_command, add_engine_options

if TYPE_CHECKING:
    from ..serving.settings import Settings
    from .options import Commands, Parser

_KEYS_VARIABLE = "CHATTTS_API_KEYS"
_MEBI = 1 << 20
_DETAILS = f"""\
Serve speech to programs and browsers, on this machine alone unless --host says otherwise.

  chattts serve                             then open http://127.0.0.1:8000
  curl 'http://127.0.0.1:8000/tts?text=Hello' -o hello.wav
  chattts serve --host 0.0.0.0 --api-keys keys.txt
  chattts serve --model huggingface --dtype auto

It speaks OpenAI's speech API (/v1/audio/speech), a WebSocket for live text
(/v1/audio/speech/stream) and NVIDIA Riva's gRPC service. Keys may stand in the variable
{_KEYS_VARIABLE} too, with commas between them. Numbers are float32 by default, so that a seed gives
the same sound whatever runs beside it; --dtype auto is faster.
"""
# Options that are limits: name of the field of Limits, metavar, help.
_LIMITS = (
    ("running", "N", "requests that are spoken side by side"),
    ("waiting", "N", "requests that may wait; more are refused at once"),
    ("wait_seconds", "S", "that a request waits at most"),
    ("characters", "N", "of a text"),
)


def add_to(commands: Commands) -> None:
    parser = add_command(commands, "serve", run, "serve speech over the network", _DETAILS)
    address = parser.add_argument_group("address")
    address.add_argument("--host", default="127.0.0.1", help="(default %(default)s)")
    address.add_argument("--port", type=int, default=8000, help="(default %(default)s; 0: any)")
    address.add_argument(
        "--grpc-port", type=int, default=50051, metavar="PORT", help="(default %(default)s)"
    )
    address.add_argument("--no-grpc", action="store_true", help="without gRPC")
    address.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate in PEM")
    address.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    address.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="let pages of this host ask, such as https://example.org or *; may be repeated",
    )
    address.add_argument(
        "--name",
        action="append",
        default=[],
        metavar="HOST",
        help="that a proxy calls the server by, such as speech.example.org; may be repeated",
    )
    address.add_argument(
        "--trust-proxy",
        action="append",
        default=[],
        metavar="ADDRESS",
        help="believe this proxy's X-Forwarded-For, such as 127.0.0.1; may be repeated",
    )
    address.add_argument("--api-keys", type=Path, metavar="FILE", help="one key a line")
    voices = parser.add_argument_group("voices")
    voices.add_argument("--voice", metavar="NAME", help="of requests that name none")
    voices.add_argument(
        "--voices", type=Path, metavar="FOLDER", help="of uploaded voices; your own by default"
    )
    _add_limits(parser)
    logs = parser.add_argument_group("logs")
    logs.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="(default %(default)s)"
    )
    logs.add_argument("--log-texts", action="store_true", help="the beginning of each text, too")
    add_engine_options(parser)
    parser.set_defaults(dtype="float32")


def _add_limits(parser: Parser) -> None:
    limits = parser.add_argument_group("limits")
    for name, metavar, what in _LIMITS:
        kind = float if name.endswith("seconds") else int
        limits.add_argument(
            f"--max-{name.replace('_', '-')}", dest=name, type=kind, metavar=metavar, help=what
        )
    limits.add_argument(
        "--result-cache",
        type=int,
        default=0,
        metavar="MB",
        help="of speech that is kept for identical requests with a seed (default: none)",
    )
    limits.add_argument(
        "--shutdown-seconds",
        type=float,
        default=20.0,
        metavar="S",
        help="that running requests may take at the end (default %(default)g)",
    )


def run(args: argparse.Namespace, console: Console) -> int:
    """Serve until Ctrl-C; gives the exit status."""
    import asyncio

    if args.engine != "velocity":
        raise UsageError("the server needs --engine velocity: the other runs one call at a time")
    try:
        from ..serving.server import Server, serve
    except ImportError as error:
        raise EngineUnavailableError(
            f"the server's packages are not here ({error}): pip install 'chattts-velocity[serve]'"
        ) from error
    settings = _settings(args)
    chat = load_chat(choose_model(args.model), args, console)

    def announce(server: Server) -> None:
        console.note(f"ready: {server.url} (the page, REST, WebSocket)")
        if server.grpc_port is not None:
            console.note(f"       {settings.host}:{server.grpc_port} (gRPC). Ctrl-C ends it")

    try:
        with _logging(args.log_format, console):
            asyncio.run(serve(chat, settings, announce))
    except asyncio.CancelledError:  # a second signal
        raise KeyboardInterrupt from None
    return 0


def _settings(args: argparse.Namespace) -> Settings:
    from ..serving.auth import read_keys
    from ..serving.settings import Limits, Settings

    named = {name: getattr(args, name) for name, _, _ in _LIMITS}
    limits: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    in_environment = os.environ.get(_KEYS_VARIABLE, "").split(",")
    keys = tuple(key.strip() for key in in_environment if key.strip())
    if args.api_keys is not None:
        keys += read_keys(args.api_keys)
    return Settings(
        host=args.host,
        port=args.port,
        grpc_port=None if args.no_grpc else args.grpc_port,
        default_voice=args.voice,
        voices=args.voices,
        api_keys=keys,
        tls_certificate=args.tls_cert,
        tls_key=args.tls_key,
        cors_origins=tuple(args.cors),
        names=tuple(args.name),
        trusted_proxies=tuple(args.trust_proxy),
        result_cache_bytes=args.result_cache * _MEBI,
        shutdown_seconds=args.shutdown_seconds,
        log_texts=args.log_texts,
        limits=Limits(**limits),
    )


@contextmanager
def _logging(form: str, console: Console) -> Iterator[None]:
    """Within this context each request is a line on standard error."""
    logger = logging.getLogger("ChatTTS.serving")
    if console.quiet:
        yield
        return
    handler = logging.StreamHandler()
    if form == "json":
        from ..serving.logs import JSONFormatter

        handler.setFormatter(JSONFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
