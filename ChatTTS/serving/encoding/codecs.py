"""Encode the formats that need a codec, by PyAV (ffmpeg's libraries)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from ...audio.marking import id3_tag
from ...audio.pcm import to_int16
from ...audio.samples import Samples
from ...config.mark import Mark
from .formats import Format
from .framing import ADTS, PacketFraming, flac_header
from .ogg_opus import OggOpus

# Ample for one voice: a sixth and a twelfth of the bit rate of PCM at 24 kHz.
_MPEG_BITS = 64_000
_OPUS_BITS = 32_000
# AAC allows at most 6144 bits for a frame of 1024 samples.
_AAC_BITS_PER_SAMPLE = 6


@dataclass(frozen=True)
class _Codec:
    """A codec's settings.

    Attributes:
        name: ffmpeg's name of the codec.
        sample_format: ffmpeg's name of the sample format that it takes.
        framing: makes the framing of an opened codec's packets, with a mark if there is one.
        bit_rate: gives the bits a second from the sample rate; ``None`` where they are fixed.
        options: ffmpeg's options.
        needs_sound: whether players refuse a file without any frame.
    """

    name: str
    sample_format: str
    framing: Callable[[AudioCodecContext, Mark | None], PacketFraming | OggOpus]
    bit_rate: Callable[[int], int] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    needs_sound: bool = False


_CODECS = {
    Format.MP3: _Codec(
        "libmp3lame",
        "fltp",
        lambda _, mark: PacketFraming(b"" if mark is None else id3_tag(mark)),
        lambda _: _MPEG_BITS,
        # Without the bit reservoir, no frame needs bits of earlier ones: frames are not delayed,
        # and each can be played by itself.
        {"reservoir": "0"},
        needs_sound=True,
    ),
    Format.AAC: _Codec(
        "aac",
        "fltp",
        lambda context, _: ADTS(context.sample_rate),
        lambda rate: min(_MPEG_BITS, _AAC_BITS_PER_SAMPLE * rate),
        needs_sound=True,
    ),
    Format.OPUS: _Codec(
        "libopus",
        "flt",
        lambda context, mark: OggOpus(_extradata(context), context.sample_rate, mark),
        lambda _: _OPUS_BITS,
        # The mode "voip" would filter the sound.
        {"application": "audio", "frame_duration": "20"},
        needs_sound=True,
    ),
    # Frames of 24 ms at 24 kHz instead of the default 96 ms: less latency for a few more bytes.
    Format.FLAC: _Codec(
        "flac",
        "s16",
        lambda context, mark: PacketFraming(flac_header(_extradata(context), mark)),
        options={"frame_size": "576"},
    ),
    Format.MULAW: _Codec("pcm_mulaw", "s16", lambda *_: PacketFraming()),
    Format.ALAW: _Codec("pcm_alaw", "s16", lambda *_: PacketFraming()),
}


class CodecWriter:
    """Encodes samples by a codec; the bytes do not depend on how the samples were cut.

    Args:
        format: one that needs a codec.
        sample_rate: samples a second, a rate that the format supports.
        bit_rate: bits a second, where the format has a choice; ``None`` takes its own.
        mark: see :class:`.encoder.Encoder`.
    """

    def __init__(
        self,
        format: Format,
        sample_rate: int,
        bit_rate: int | None = None,
        mark: Mark | None = None,
    ) -> None:
        codec = _CODECS[format]
        self._context = _opened(codec, sample_rate, bit_rate)
        self._codec = codec
        self._framing = codec.framing(self._context, mark)
        self._has_header = False
        self._samples = 0

    def push(self, samples: Samples) -> bytes:
        """Encode float32 (n,), clipped to [-1, 1]; the bytes may be empty."""
        return self._begin() + self._framing.body(self._encode(samples))

    def finish(self) -> bytes:
        """Return the last bytes."""
        head = self._begin()
        packets = []
        if self._codec.needs_sound and not self._samples:
            packets = self._encode(np.zeros(1, dtype=np.float32))
        packets += _bytes(self._context.encode(None))
        return head + self._framing.end(packets, self._samples)

    def _begin(self) -> bytes:
        if self._has_header:
            return b""
        self._has_header = True
        return self._framing.header()

    def _encode(self, samples: Samples) -> list[bytes]:
        if not samples.size:
            return []
        is_integer = self._codec.sample_format == "s16"
        data = to_int16(samples) if is_integer else np.clip(samples, -1, 1)
        frame = av.AudioFrame.from_ndarray(
            data.reshape(1, -1), format=self._codec.sample_format, layout="mono"
        )
        frame.sample_rate = self._context.sample_rate
        frame.time_base = Fraction(1, self._context.sample_rate)
        frame.pts = self._samples
        self._samples += len(samples)
        # PyAV collects the samples into frames of the codec's size.
        return _bytes(self._context.encode(frame))


def _opened(codec: _Codec, sample_rate: int, bit_rate: int | None) -> AudioCodecContext:
    context = av.CodecContext.create(codec.name, "w")
    assert isinstance(context, AudioCodecContext)
    context.format = codec.sample_format
    context.layout = "mono"
    context.sample_rate = sample_rate
    context.time_base = Fraction(1, sample_rate)
    if codec.bit_rate is not None:
        context.bit_rate = bit_rate or codec.bit_rate(sample_rate)
    context.options = dict(codec.options)
    context.open()
    return context


def _extradata(context: AudioCodecContext) -> bytes:
    data = context.extradata
    assert data is not None
    return bytes(data)


def _bytes(packets: list[av.Packet[Any]]) -> list[bytes]:
    """Return the bytes of the packets that are not empty; FLAC's last one is."""
    return [bytes(packet) for packet in packets if packet.size]
