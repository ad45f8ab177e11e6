"""Where the sound of ``chattts say`` goes."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .console import UsageError

if TYPE_CHECKING:
    from ..audio import PCMWriter

_DEFAULT = Path("speech.wav")


@dataclass(frozen=True)
class OutputTarget:
    """A sound file or raw PCM on standard output, the sound device, or both.

    Attributes:
        path: the file, which may exist; ``None`` for none.
        fresh: take the first free number instead of a file that exists.
        piped: raw PCM goes to standard output.
        plays: the sound is played.
    """

    path: Path | None = None
    fresh: bool = False
    piped: bool = False
    plays: bool = False

    @property
    def name(self) -> str:
        """What messages call it."""
        written = "standard output" if self.piped else self.path and str(self.path)
        return ", ".join(name for name in (written, "played" if self.plays else None) if name)

    @property
    def sets_the_pace(self) -> bool:
        """Whether samples are taken as they are heard, so that their time says nothing of ours."""
        return self.piped or self.plays

    def save(self, samples: Any) -> str:
        """Write a whole waveform to the file or pipe; gives the name of what now holds it."""
        if self.path is None:
            with self.open() as sink:
                sink.write(samples)
            return self.name
        from ..audio import save

        return str(save(_unused(self.path) if self.fresh else self.path, samples))

    def open(self) -> OutputStream:
        """What takes samples that come bit by bit."""
        return OutputStream(self)

    def writer(self) -> PCMWriter | None:
        """Of the file or pipe, if there is one; an existing file is replaced now."""
        from ..audio import PCMWriter, WavWriter

        if self.piped:
            return PCMWriter(sys.stdout.buffer)
        return None if self.path is None else WavWriter(self.path)


class OutputStream:
    """Takes samples bit by bit; a file is made when the first ones come.

    Leaving it by ``with`` waits until all is heard; leaving it by an exception stops the sound.

    Attributes:
        samples_written: samples that were written or, where they are played, played.

    Raises:
        AudioError: there is nothing to play on.
    """

    def __init__(self, output: OutputTarget) -> None:
        from ..audio import Player

        self._output = output
        self._writer: PCMWriter | None = None
        self._has_begun = False
        self._player = Player() if output.plays else None

    @property
    def samples_written(self) -> int:
        last = self._player or self._writer
        return 0 if last is None else last.samples_written

    @property
    def underruns(self) -> int:
        """How often the sound device had nothing to play."""
        return 0 if self._player is None else self._player.underruns

    def write(self, samples: Any) -> None:
        """Append one chunk; where it is played this waits until the device has room for it."""
        if not self._has_begun:
            self._has_begun = True
            self._writer = self._output.writer()
        # The player comes last, since it waits: the file is never behind what is heard.
        for target in (self._writer, self._player):
            if target is not None:
                target.write(samples)

    def close(self) -> None:
        """Finish what is written, and wait until all is heard. Closing twice is no error."""
        self.__exit__(None, None, None)

    def __enter__(self) -> OutputStream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._player is not None:
                self._player.__exit__(kind, error, trace)
        finally:
            if self._writer is not None:
                self._writer.close()


def choose_output(out: str | None, *, stream: bool, play: bool) -> OutputTarget:
    """What ``-o``, ``--stream`` and ``--play`` ask for, checked before anything is spoken.

    Without ``-o``, what is played goes nowhere else, a stream goes to standard output, and a whole
    waveform into a new file in the current folder.

    Raises:
        UsageError: a terminal would get raw sound, or the file cannot be made.
        AudioError: there is nothing to play on.
    """
    output = _written(out, stream, play)
    if play:
        from ..audio import find_sound_device

        find_sound_device()
    return output


def _written(out: str | None, stream: bool, play: bool) -> OutputTarget:
    if out is None and play:
        return OutputTarget(plays=True)
    if out == "-" or (out is None and stream):
        if sys.stdout.isatty():
            raise UsageError(
                "raw sound would go to the terminal: let it be played (--play), pipe it into a "
                "player (| aplay -f S16_LE -r 24000), or name a file with -o"
            )
        return OutputTarget(piped=True, plays=play)
    path = _DEFAULT if out is None else Path(out)
    _check(path, stream or play)
    return OutputTarget(path, fresh=out is None, plays=play)


def _unused(path: Path) -> Path:
    """``path``, or else with the first number that is free: ``speech-2.wav``."""
    names = (path if n == 1 else path.with_stem(f"{path.stem}-{n}") for n in count(1))
    return next(name for name in names if not os.path.lexists(name))


def _check(path: Path, grows: bool) -> None:
    from ..audio import FORMATS
    from ..audio.files import check_target

    formats = ("wav",) if grows else FORMATS
    if path.suffix.lower().removeprefix(".") not in formats:
        endings = ", ".join(f".{name}" for name in formats)
        growing = " with --stream or --play, which write while they speak" if grows else ""
        raise UsageError(f"{path} must end in {endings}{growing}")
    check_target(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{path} cannot be written: permission denied")
