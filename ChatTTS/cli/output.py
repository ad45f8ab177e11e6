"""Where the sound of ``chattts say`` goes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import UsageError

if TYPE_CHECKING:
    from ..audio import PCMWriter

_DEFAULT = Path("speech.wav")


@dataclass(frozen=True)
class Output:
    """A sound file, or raw PCM on standard output.

    Attributes:
        path: the file, which may exist; None for standard output.
        fresh: take the first free number instead of a file that exists.
    """

    path: Path | None
    fresh: bool = False

    def save(self, samples: Any) -> str:
        """Write a whole waveform; gives the name of what now holds it."""
        if self.path is None:
            with self.open() as writer:
                writer.write(samples)
            return self.name
        from ..audio import save

        return str(save(_unused(self.path) if self.fresh else self.path, samples))

    def open(self) -> PCMWriter:
        """A writer for samples that come bit by bit; an existing file is replaced now."""
        from ..audio import PCMWriter, WavWriter

        return PCMWriter(sys.stdout.buffer) if self.path is None else WavWriter(self.path)

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard output" if self.path is None else str(self.path)


def choose_output(out: str | None, stream: bool) -> Output:
    """What ``-o`` and ``--stream`` ask for, checked before anything is spoken.

    Without ``-o`` a stream goes to standard output, and a whole waveform into a new file in the
    current folder.

    Raises:
        UsageError: a terminal would get raw sound, or the file cannot be made.
    """
    if out == "-" or (out is None and stream):
        if sys.stdout.isatty():
            raise UsageError(
                "raw sound would go to the terminal: pipe it into a player "
                "(| aplay -f S16_LE -r 24000), or name a file with -o"
            )
        return Output(None)
    path = _DEFAULT if out is None else Path(out)
    _check(path, stream)
    return Output(path, fresh=out is None)


def _unused(path: Path) -> Path:
    """``path``, or else with the first number that is free: ``speech-2.wav``."""
    names = (path if n == 1 else path.with_stem(f"{path.stem}-{n}") for n in count(1))
    return next(name for name in names if not os.path.lexists(name))


def _check(path: Path, stream: bool) -> None:
    from ..audio import FORMATS
    from ..audio.files import check_target

    formats = ("wav",) if stream else FORMATS
    if path.suffix.lower().removeprefix(".") not in formats:
        endings = ", ".join(f".{name}" for name in formats)
        growing = " with --stream, which writes while it speaks" if stream else ""
        raise UsageError(f"{path} must end in {endings}{growing}")
    check_target(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written: permission denied")
