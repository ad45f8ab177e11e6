"""Read and write sound files."""

from __future__ import annotations

import io
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config.mark import Mark, mark_of
from ..errors import AudioError
from ..utils.untrusted import LONGEST_FILE, open_regular
from .marking import marked
from .pcm import count_clipped, to_int16
from .samples import SAMPLE_RATE, Samples, StrPath, check_rate, resample, to_mono

log = logging.getLogger(__name__)

# File ending: libsndfile's format and its default subtype.
_FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
    "ogg": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
}
FORMATS = tuple(_FORMATS)
"""Names of the formats that ``save`` and ``encode`` write; they are the file endings, too."""

# libsndfile's Vorbis writer keeps all samples of a call on the stack, so long calls crash it.
_BLOCK = 1 << 16
# Values of all channels that are read at once.
_VALUES = 1 << 20


def save(
    path: StrPath,
    wav: Any,
    sample_rate: int = SAMPLE_RATE,
    *,
    format: str | None = None,
    subtype: str | None = None,
    mark: Mark | bool = True,
) -> Path:
    """Write one waveform to a sound file and return its path.

    The file appears under its name only when it is complete. Samples beyond [-1, 1] are clipped
    with one logged warning, unless the subtype is FLOAT or DOUBLE.

    Args:
        path: ``.wav`` and ``.flac`` are written as 16-bit PCM, ``.mp3``, ``.ogg`` (Vorbis) and
            ``.opus`` compressed. An existing file is replaced; the folder must exist.
        wav: ``(n,)``, ``(1, n)`` or ``(n, 1)`` array, tensor or list, float (full scale 1) or
            int16, or a list that holds one waveform, as ``Chat.infer`` returns it.
        sample_rate: in Hz.
        format: one of ``FORMATS``, to override the path's ending.
        subtype: another encoding of the samples, such as ``"FLOAT"`` for a lossless WAV.
        mark: tags which say that the sound is synthetic, by what and on which day it was made
            (:class:`~ChatTTS.config.mark.Mark`); ``False`` leaves them out. The day is today's in
            UTC, or that of the environment variable ``SOURCE_DATE_EPOCH``.

    Raises:
        AudioError: the samples, the format or the path cannot be used; the message has the reason.
        ConfigError: ``SOURCE_DATE_EPOCH`` is no time.
    """
    path = Path(path)
    format = _format_of(path) if format is None else format
    check_target(path)
    write_file(path, encode(wav, format, sample_rate, subtype=subtype, mark=mark))
    return path


def encode(
    wav: Any,
    format: str,
    sample_rate: int = SAMPLE_RATE,
    *,
    subtype: str | None = None,
    mark: Mark | bool = True,
) -> bytes:
    """Return the bytes of the file that ``save`` would write.

    Arguments and errors are those of ``save``.
    """
    import soundfile

    container, default_subtype = _container(format)
    chosen = mark_of(mark)
    subtype = (subtype or default_subtype).upper()
    _check_subtype(format, container, subtype)
    rate = check_rate(sample_rate)
    samples = to_mono(wav)
    if not samples.size:
        raise AudioError("wav is empty; there is nothing to write")
    fitting = samples if subtype in ("FLOAT", "DOUBLE") else _clip(samples)
    data: NDArray[Any] = to_int16(fitting) if subtype == "PCM_16" else fitting
    buffer = io.BytesIO()
    try:
        with soundfile.SoundFile(
            buffer, "w", rate, channels=1, format=container, subtype=subtype
        ) as sound:
            for start in range(0, len(data), _BLOCK):
                sound.write(data[start : start + _BLOCK])
    except soundfile.LibsndfileError as error:
        raise AudioError(
            f"{format} with {subtype} cannot be written at {rate} samples a second "
            f"({_reason(error)}); use 24000, which every format supports, or save as wav or flac"
        ) from error
    file = buffer.getvalue()
    return file if chosen is None else marked(file, _plain(format), chosen)


def read(
    path: StrPath,
    sample_rate: int | None = None,
    *,
    mono: bool = True,
    longest: float | None = None,
) -> tuple[Samples, int]:
    """Read a sound file of any format that libsndfile knows.

    Args:
        path: the file.
        sample_rate: resample to this rate; ``None`` keeps the file's own.
        mono: mix the channels into one (their mean).
        longest: refuse a file with more seconds of samples, even if its header says less.

    Returns:
        float32 samples, full scale 1, of shape ``(n,)``, or ``(channels, n)`` with
        ``mono=False``; and their rate in Hz.

    Raises:
        AudioError: the file is missing, not audio, damaged, too long, or holds no samples.
    """
    target_rate = None if sample_rate is None else check_rate(sample_rate)
    with _open_sound(Path(path)) as sound:
        rate = int(sound.samplerate)
        most = None if longest is None else int(longest * rate)
        blocks: list[Samples] = []
        total = 0
        for block in _blocks(sound):
            total += block.shape[1]
            if most is not None and total > most:
                raise AudioError(f"{path} lasts longer than {longest:g} s")
            blocks.append(block.mean(axis=0) if mono else block)
    if not total:
        raise AudioError(f"{path} holds no samples")
    samples: Samples = np.concatenate(blocks, axis=-1)
    if target_rate is None:
        return samples, rate
    return resample(samples, rate, target_rate), target_rate


@dataclass(frozen=True)
class SoundHeader:
    """The header of a sound file, which need not be true.

    Attributes:
        seconds: length of the sound.
        rate: in Hz.
        channels: number of channels.
    """

    seconds: float
    rate: int
    channels: int


def header(path: StrPath) -> SoundHeader:
    """Return the header of a sound file; errors as ``read``."""
    with _open_sound(Path(path)) as sound:
        rate = int(sound.samplerate)
        return SoundHeader(float(sound.frames / rate), rate, int(sound.channels))


def check_target(path: Path) -> None:
    """Raise AudioError if no file can be created at ``path``; called before the work for it."""
    if path.is_dir():
        raise AudioError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise AudioError(f"{path} cannot be written: the folder {path.parent} does not exist")


def write_file(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, all of it or nothing.

    A link is followed, not replaced. A pipe or device is written to, not replaced.

    Raises:
        AudioError: the system refuses; the message has the reason.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise AudioError(f"{path} cannot be written: {error.strerror or error}") from error


def _blocks(sound: Any) -> Iterator[Samples]:
    """Yield the samples of an open file in blocks ``(channels, n)``.

    A header may promise any number of samples, and a small compressed file may have many. So the
    caller can stop before they fill the memory.
    """
    length = max(1, _VALUES // sound.channels)
    while len(block := sound.read(length, dtype="float32", always_2d=True)):
        yield np.ascontiguousarray(block.T)


@contextmanager
def _open_sound(path: Path) -> Iterator[Any]:
    """Open a ``soundfile.SoundFile``; every failure becomes an AudioError."""
    import soundfile

    try:
        if path.is_dir():
            raise AudioError(f"{path} is a folder, not a sound file")
        open_regular(path, LONGEST_FILE).close()  # a pipe would block until its other end opens
        with path.open("rb") as file, soundfile.SoundFile(file) as sound:
            yield sound
    except FileNotFoundError:
        raise AudioError(f"{path} does not exist") from None
    except OSError as error:
        raise AudioError(f"{path} cannot be read: {error.strerror or error}") from error
    except soundfile.LibsndfileError as error:
        raise AudioError(
            f"{path} is not a readable sound file ({_reason(error)}); convert it to wav, flac, "
            "mp3 or ogg"
        ) from error
    except TypeError as error:  # an ending such as .raw means samples without a header
        raise AudioError(
            f"{path} has no header that gives its sample rate; convert it to wav, flac, mp3 or ogg"
        ) from error


def _reason(error: Any) -> str:
    """Return libsndfile's error message; it may be missing."""
    return error.error_string.removeprefix("Error : ").strip(" .") or "libsndfile gives no reason"


def _format_of(path: Path) -> str:
    ending = path.suffix.lower().removeprefix(".")
    if ending not in _FORMATS:
        found = f"the ending .{ending}, which is unknown" if ending else "no ending"
        raise AudioError(
            f"{path} has {found}; use one of {', '.join('.' + f for f in FORMATS)}, "
            "or name a format"
        )
    return ending


def _container(format: str) -> tuple[str, str]:
    try:
        return _FORMATS[_plain(format)]
    except KeyError:
        raise AudioError(f"format {format!r} is unknown; use one of {', '.join(FORMATS)}") from None


def _plain(format: str) -> str:
    return format.lower().removeprefix(".")


def _check_subtype(format: str, container: str, subtype: str) -> None:
    import soundfile

    if container not in soundfile.available_formats():
        raise AudioError(
            f"libsndfile {soundfile.__libsndfile_version__} cannot write {format}; install a newer "
            "one (pip install --upgrade soundfile), or save as wav or flac"
        )
    if not soundfile.check_format(container, subtype):
        raise AudioError(
            f"{format} has no subtype {subtype}; "
            f"use one of {', '.join(soundfile.available_subtypes(container))}"
        )


def _clip(samples: Samples) -> Samples:
    clipped = count_clipped(samples)
    if clipped:
        log.warning(
            "clipped %d of %d samples that lie beyond [-1, 1] (peak %.3g); make the waveform "
            "quieter, or write a wav with subtype FLOAT",
            clipped,
            samples.size,
            np.abs(samples).max(),
        )
    return np.clip(samples, -1.0, 1.0)
