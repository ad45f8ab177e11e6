"""Formats that need a codec, by PyAV (ffmpeg's libraries)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from ...audio.pcm import to_int16
from ...audio.samples import Samples
from .formats import Format
from .framing import ADTS, Bare, Framing, flac_head
from .ogg import OggOpus

# Ample for one voice: a sixth and a twelfth of what PCM takes at 24 kHz.
_MPEG_BITS = 64_000
_OPUS_BITS = 32_000
# AAC allows 6144 bits for a frame of 1024 samples.
_AAC_BITS_PER_SAMPLE = 6


@dataclass(frozen=True)
class _Codec:
    """A codec as it is used here.

    Attributes:
        name: ffmpeg's.
        sample_format: ffmpeg's name of what it takes.
        framing: what stands around the packets of an opened codec.
        bits: a second, from the sample rate; ``None`` where the codec leaves no choice.
        options: ffmpeg's.
        needs_sound: whether players refuse a file without a frame.
    """

    name: str
    sample_format: str
    framing: Callable[[AudioCodecContext], Framing]
    bits: Callable[[int], int] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    needs_sound: bool = False


_CODECS = {
    Format.MP3: _Codec(
        "libmp3lame",
        "fltp",
        lambda _: Bare(),
        lambda _: _MPEG_BITS,
        # Frames that borrow bits of earlier ones come later, and cannot be played without those.
        {"reservoir": "0"},
        needs_sound=True,
    ),
    Format.AAC: _Codec(
        "aac",
        "fltp",
        lambda context: ADTS(context.sample_rate),
        lambda rate: min(_MPEG_BITS, _AAC_BITS_PER_SAMPLE * rate),
        needs_sound=True,
    ),
    Format.OPUS: _Codec(
        "libopus",
        "flt",
        lambda context: OggOpus(_extradata(context), context.sample_rate),
        lambda _: _OPUS_BITS,
        # Its mode for speech on the telephone filters the sound.
        {"application": "audio", "frame_duration": "20"},
        needs_sound=True,
    ),
    # A quarter of the usual frame: 24 ms at 24 kHz instead of 96, for some more bytes.
    Format.FLAC: _Codec(
        "flac",
        "s16",
        lambda context: Bare(flac_head(_extradata(context))),
        options={"frame_size": "576"},
    ),
    Format.MULAW: _Codec("pcm_mulaw", "s16", lambda _: Bare()),
    Format.ALAW: _Codec("pcm_alaw", "s16", lambda _: Bare()),
}


class CodecWriter:
    """Samples to bytes by a codec; the bytes do not depend on how the samples were cut.

    Args:
        format: one that needs a codec.
        sample_rate: samples a second, one that the format knows.
    """

    def __init__(self, format: Format, sample_rate: int) -> None:
        codec = _CODECS[format]
        self._context = _opened(codec, sample_rate)
        self._sample_format = codec.sample_format
        self._framing = codec.framing(self._context)
        self._has_head = False
        self._samples = 0
        self._needs_sound = codec.needs_sound

    def push(self, samples: Samples) -> bytes:
        """Encode float32 (n,), which is clipped at full scale; the bytes may be empty."""
        return self._begin() + self._framing.body(self._encode(samples))

    def finish(self) -> bytes:
        """The last bytes."""
        head = self._begin()
        packets = []
        if self._needs_sound and not self._samples:
            packets = self._encode(np.zeros(1, dtype=np.float32))
        packets += _bytes(self._context.encode(None))
        return head + self._framing.end(packets, self._samples)

    def _begin(self) -> bytes:
        if self._has_head:
            return b""
        self._has_head = True
        return self._framing.head()

    def _encode(self, samples: Samples) -> list[bytes]:
        if not samples.size:
            return []
        is_integer = self._sample_format == "s16"
        data = to_int16(samples) if is_integer else np.clip(samples, -1, 1)
        frame = av.AudioFrame.from_ndarray(
            data.reshape(1, -1), format=self._sample_format, layout="mono"
        )
        frame.sample_rate = self._context.sample_rate
        frame.time_base = Fraction(1, self._context.sample_rate)
        frame.pts = self._samples
        self._samples += len(samples)
        # PyAV gathers frames of the codec's size.
        return _bytes(self._context.encode(frame))


def _opened(codec: _Codec, sample_rate: int) -> AudioCodecContext:
    context = av.CodecContext.create(codec.name, "w")
    assert isinstance(context, AudioCodecContext)
    context.format = codec.sample_format
    context.layout = "mono"
    context.sample_rate = sample_rate
    context.time_base = Fraction(1, sample_rate)
    if codec.bits is not None:
        context.bit_rate = codec.bits(sample_rate)
    context.options = dict(codec.options)
    context.open()
    return context


def _extradata(context: AudioCodecContext) -> bytes:
    data = context.extradata
    assert data is not None
    return bytes(data)


def _bytes(packets: list[av.Packet]) -> list[bytes]:
    """Of the packets that hold any: FLAC's last one does not."""
    return [bytes(packet) for packet in packets if packet.size]
