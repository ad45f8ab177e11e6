"""Write or play the sound of ``chattts say``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .console import UsageError

if TYPE_CHECKING:
    from ..audio import PCMWriter
    from ..audio.content_credentials import Credentials
    from ..config.mark import Mark

_DEFAULT = Path("speech.wav")


@dataclass(frozen=True)
class OutputTarget:
    """A sound file or raw PCM on standard output, the sound device, or both.

    Attributes:
        path: the file, which may exist; ``None`` for no file.
        fresh: whether an existing file is kept and a number is added to the new file's name.
        piped: whether raw PCM goes to standard output.
        plays: whether the sound is played.
        mark: what the file says of the sound; ``None`` for nothing.
        credentials: sign the file, if there are any.
    """

    path: Path | None = None
    fresh: bool = False
    piped: bool = False
    plays: bool = False
    mark: Mark | None = None
    credentials: Credentials | None = None

    @property
    def name(self) -> str:
        """Its name in messages."""
        written = "standard output" if self.piped else self.path and str(self.path)
        return ", ".join(name for name in (written, "played" if self.plays else None) if name)

    @property
    def is_real_time(self) -> bool:
        """Return whether a player or a pipe may take the samples at playback speed.

        The time of the command then does not measure the model.
        """
        return self.piped or self.plays

    def save(self, samples: Any) -> str:
        """Write a whole waveform to the file or pipe; return the name of the target."""
        if self.path is None:
            with self.open() as stream:
                stream.write(samples)
            return self.name
        from ..audio import save

        path = _unused(self.path) if self.fresh else self.path
        save(path, samples, mark=self.mark or False)
        self.sign(path)
        return str(path)

    def sign(self, path: Path) -> None:
        """Sign a file that is complete, if that is asked for."""
        if self.credentials is not None:
            from ..audio.content_credentials import sign

            sign(path, self.credentials, self.mark)

    def open(self) -> OutputStream:
        """Open it for samples that come in chunks."""
        return OutputStream(self)

    def writer(self) -> PCMWriter | None:
        """Open the file or pipe, if there is one; an existing file is replaced now."""
        from ..audio import PCMWriter, WavWriter

        if self.piped:
            return PCMWriter(sys.stdout.buffer)
        return None if self.path is None else WavWriter(self.path, mark=self.mark or False)


class OutputStream:
    """Writes and plays samples chunk by chunk; a file is created with the first chunk.

    Leaving its context waits until all sound is played. Leaving it by an exception stops the sound.

    Raises:
        AudioError: there is no sound device.
    """

    def __init__(self, output: OutputTarget) -> None:
        from ..audio import Player

        self._output = output
        self._writer: PCMWriter | None = None
        self._has_begun = self._is_signed = False
        self._player = Player() if output.plays else None

    @property
    def samples_written(self) -> int:
        """Number of samples that were played or, without playback, written."""
        last = self._player or self._writer
        return 0 if last is None else last.samples_written

    @property
    def underruns(self) -> int:
        """Number of times that the sound device had nothing to play."""
        return 0 if self._player is None else self._player.underruns

    def write(self, samples: Any) -> None:
        """Append one chunk; with playback, wait until the device has room for it."""
        if not self._has_begun:
            self._has_begun = True
            self._writer = self._output.writer()
        # The player comes last, since it waits: so the file is never behind the played sound.
        for target in (self._writer, self._player):
            if target is not None:
                target.write(samples)

    def close(self) -> None:
        """Finish the file and wait until all sound is played. It may be called again."""
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
                self._sign(is_whole=kind is None)

    def _sign(self, *, is_whole: bool) -> None:
        if is_whole and self._output.path is not None and not self._is_signed:
            self._is_signed = True
            self._output.sign(self._output.path)


def choose_output(
    out: str | None,
    *,
    stream: bool,
    play: bool,
    mark: Mark | None = None,
    credentials: Credentials | None = None,
) -> OutputTarget:
    """Return the target for ``-o``, ``--stream`` and ``--play``, checked before the model speaks.

    Without ``-o``, played sound is not written, a stream goes to standard output, and a whole
    waveform goes into a new file in the current folder.

    Raises:
        UsageError: a terminal would get raw sound, or the file cannot be created.
        AudioError: there is no sound device, or the format of the file cannot be signed.
    """
    output = replace(_target(out, stream, play), mark=mark, credentials=credentials)
    if credentials is not None:
        from ..audio.content_credentials import check_signed_format

        if output.path is None:
            raise UsageError("--c2pa-cert signs files: name one with -o")
        check_signed_format(output.path)
    if play:
        from ..audio import find_sound_device

        find_sound_device()
    return output


def _target(out: str | None, stream: bool, play: bool) -> OutputTarget:
    if out is None and play:
        return OutputTarget(plays=True)
    if out == "-" or (out is None and stream):
        if sys.stdout.isatty():
            raise UsageError(
                "raw audio would be written to the terminal: play it (--play), pipe it into a "
                "player (| aplay -f S16_LE -r 24000), or name a file with -o"
            )
        return OutputTarget(piped=True, plays=play)
    path = _DEFAULT if out is None else Path(out)
    _check(path, stream or play)
    return OutputTarget(path, fresh=out is None, plays=play)


def _unused(path: Path) -> Path:
    """Return ``path``, or the first free name such as ``speech-2.wav`` if it exists."""
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
