"""Recordings in MP4 (m4a), WebM, Matroska and ADTS: what phones and browsers record."""

from __future__ import annotations

import io
from collections.abc import Callable

import av
import numpy as np
from av.error import FFmpegError

from ...audio.samples import Samples
from ...errors import AudioError

# FFmpeg guesses among hundreds of formats, some of which open other files. It is told the format.
_MATROSKA = b"\x1aE\xdf\xa3"
# Encoders make frames of 64 samples and more, ALAC of 4096.
_MOST_FRAMES, _LONGEST_FRAME = 100_000, 1 << 16
_ALAC_FRAME = slice(12, 16)  # the length of a frame in the header of ALAC
_CODECS = frozenset({"aac", "alac", "mp3", "mp3float", "opus", "libopus", "vorbis", "flac"})


def find(data: bytes) -> str | None:
    """Return FFmpeg's name of the container; ``None`` for other data."""
    if data[4:8] == b"ftyp":
        return "mov"
    if data.startswith(_MATROSKA):
        return "matroska"
    if data[:1] == b"\xff" and len(data) > 1 and data[1] & 0xF6 == 0xF0:
        return "aac"  # ADTS; the layer bits of MPEG audio, such as mp3, are never zero
    return None


def read(
    data: bytes, container: str, most_seconds: float, check: Callable[[int, int], None]
) -> tuple[Samples, int]:
    """Decode the beginning of a recording.

    Args:
        data: the file.
        container: a name of :func:`find`.
        most_seconds: of sound that are decoded; what follows is dropped.
        check: called with the rate in Hz and the number of channels before samples are kept; raises
            an error if they are too many.

    Returns:
        Mono float32 (n,) with full scale 1, and the rate in Hz.

    Raises:
        AudioError: the file cannot be decoded, or has no sound.
    """
    parts: list[Samples] = []
    rate = count = 0
    try:
        with av.open(io.BytesIO(data), format=container) as opened:
            if not opened.streams.audio:
                raise AudioError("the recording contains no sound")
            stream = opened.streams.audio[0]
            if stream.codec_context.name not in _CODECS:
                raise AudioError(
                    f"the recording's sound is {stream.codec_context.name}: send AAC, ALAC, MP3, "
                    "Opus, Vorbis or FLAC"
                )
            _check_frames(stream.codec_context)
            for number, frame in enumerate(opened.decode(stream)):
                if number == _MOST_FRAMES:
                    raise AudioError("the recording has too many packets")
                check(frame.sample_rate, frame.layout.nb_channels)
                rate = rate or frame.sample_rate
                if frame.sample_rate != rate:
                    raise AudioError("the sample rate of the recording changes midway")
                parts.append(_mono(frame))
                count += len(parts[-1])
                if count > most_seconds * rate:
                    break
    except AudioError:
        raise
    except (FFmpegError, ValueError) as error:
        raise AudioError("the recording cannot be read: it is damaged or cut off") from error
    if not count:
        raise AudioError("the recording contains no sound")
    return np.concatenate(parts), rate


def _check_frames(codec: av.AudioCodecContext) -> None:
    """Raise AudioError for ALAC whose header promises frames of any size: they take gigabytes."""
    header = codec.extradata or b""
    if codec.name == "alac" and int.from_bytes(header[_ALAC_FRAME], "big") > _LONGEST_FRAME:
        raise AudioError("the recording's ALAC frames are too long")


def _mono(frame: av.AudioFrame) -> Samples:
    """Return the mean of a frame's channels, float32 (n,)."""
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    scale = 1.0 if values.dtype.kind == "f" else 2.0 ** (8 * values.dtype.itemsize - 1)
    mono: Samples = (values.mean(axis=0, dtype=np.float64) / scale).astype(np.float32)
    return mono
