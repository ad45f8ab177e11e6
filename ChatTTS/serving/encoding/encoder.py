"""Samples to bytes of a format, both piece by piece."""

from __future__ import annotations

from typing import Any, Protocol

from ...audio.samples import SAMPLE_RATE, Samples, to_mono
from ...errors import AudioError
from .codecs import CodecWriter
from .formats import Format
from .framing import with_flac_length, with_wav_length
from .pcm import PlainWriter
from .rates import Resampler
from .tempo import Tempo, check_speed


class _Stage(Protocol):
    """Samples to samples."""

    def push(self, samples: Samples) -> Samples: ...

    def finish(self) -> Samples: ...


class _Writer(Protocol):
    """Samples to bytes."""

    def push(self, samples: Samples) -> bytes: ...

    def finish(self) -> bytes: ...


class Encoder:
    """The bytes of one stream; :func:`encoder` makes it.

    The joined bytes depend on the joined samples only, not on how they were cut. One thread at a
    time may use it. Letting go of it before its end frees the codec.

    Attributes:
        format: what it writes.
        sample_rate: samples a second of the stream.
    """

    def __init__(
        self, format: Format, sample_rate: int, stages: tuple[_Stage, ...], writer: _Writer
    ) -> None:
        self.format = format
        self.sample_rate = sample_rate
        self._stages = stages
        self._writer = writer
        self._written = 0  # samples
        self._is_finished = False

    def push(self, samples: Any) -> bytes:
        """The bytes that are ready after these samples, which may be none.

        Args:
            samples: float32 (n,) at 24 kHz, full scale 1; what lies beyond is clipped.

        Raises:
            AudioError: the samples hold NaN or infinity or are more than one waveform, or the
                stream is finished.
        """
        self._check_unfinished()
        current = to_mono(samples, "samples")
        for stage in self._stages:
            current = stage.push(current)
        return self._write(current)

    def finish(self) -> bytes:
        """The last bytes.

        A stream without samples becomes a file all the same: bare PCM and G.711 are empty, WAV and
        FLAC are their headers, and the others hold one silent sample, since players refuse them
        without any.

        Raises:
            AudioError: the stream is finished already.
        """
        self._check_unfinished()
        self._is_finished = True
        data = b""
        for number, stage in enumerate(self._stages):
            current = stage.finish()
            for later in self._stages[number + 1 :]:
                current = later.push(current)
            data += self._write(current)
        return data + self._writer.finish()

    def as_file(self, stream: bytes) -> bytes:
        """All bytes of the stream, with its length in the head where the format has a place for it.

        A stream cannot know how long it will be. Players do not mind, but programs that read a
        whole WAV or FLAC file want to be told.

        Raises:
            AudioError: the stream is not finished.
        """
        if not self._is_finished:
            raise AudioError("the encoder is not finished: its stream has no length yet")
        if self.format is Format.WAV:
            return with_wav_length(stream)
        return with_flac_length(stream, self._written) if self.format is Format.FLAC else stream

    def _write(self, samples: Samples) -> bytes:
        self._written += len(samples)
        return self._writer.push(samples)

    def _check_unfinished(self) -> None:
        if self._is_finished:
            raise AudioError("the encoder is finished; make another one for another stream")


def encoder(format: Format, sample_rate: int = SAMPLE_RATE, speed: float = 1.0) -> Encoder:
    """An encoder of speech at 24 kHz.

    Args:
        format: what to write.
        sample_rate: samples a second of what is written, from 8000 to 48000; where the format
            does not know that rate, the stream has the next one above.
        speed: tempo from 0.25 to 4, at the same pitch; 1 leaves every sample as it is.

    Raises:
        AudioError: a rate or speed that no stream can have.
    """
    rate = format.carried_rate(sample_rate)
    stages: list[_Stage] = []
    if check_speed(speed) != 1:
        stages.append(Tempo(speed, SAMPLE_RATE))
    if rate != SAMPLE_RATE:
        stages.append(Resampler(SAMPLE_RATE, rate))
    is_plain = format in (Format.PCM, Format.WAV)
    writer: _Writer = PlainWriter(format, rate) if is_plain else CodecWriter(format, rate)
    return Encoder(format, rate, tuple(stages), writer)
