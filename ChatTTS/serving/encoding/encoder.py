"""Encode samples as bytes of an audio format, both piece by piece."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ...audio.samples import SAMPLE_RATE, Samples, to_mono
from ...audio.tempo import Tempo, check_speed
from ...config.mark import Mark
from ...errors import AudioError
from .codecs import CodecWriter
from .formats import Format
from .framing import g711_wav_header, with_flac_length, with_wav_length
from .pcm import PlainWriter
from .resampler import Resampler

# The most samples that are encoded in the event loop: 75 us, where a turn of a thread takes 90.
_QUICK_SAMPLES = SAMPLE_RATE
# Numbers of the encodings in WAV.
_G711 = {Format.MULAW: 7, Format.ALAW: 6}


class Encoder:
    """Encodes one stream of speech at 24 kHz.

    The joined bytes depend on the joined samples only, not on how they were cut. One thread at a
    time may use it. Dropping the last reference to it frees the codec, also before its end.

    Args:
        format: of the stream.
        sample_rate: of the stream, from 8000 to 48000 samples a second. If the format does not
            support that rate, the stream has the next higher one.
        speed: tempo from 0.25 to 4, at the same pitch; 1 leaves every sample unchanged.
        bit_rate: bits a second, for MP3, AAC and Opus; ``None`` takes the format's own, and other
            formats take no notice of it.
        in_wav: whether a stream of G.711 begins with the header of a WAV file.
        mark: in the header of MP3, Opus and FLAC; other streams have no place for it that all
            players pass over.

    Attributes:
        format: as above.
        sample_rate: the rate that the stream has.

    Raises:
        AudioError: the rate or the speed is out of range, or ``in_wav`` is asked of another format.
    """

    def __init__(
        self,
        format: Format,
        sample_rate: int = SAMPLE_RATE,
        speed: float = 1.0,
        bit_rate: int | None = None,
        *,
        in_wav: bool = False,
        mark: Mark | None = None,
    ) -> None:
        if in_wav and format not in _G711:
            raise AudioError("in_wav is only for G.711 (mulaw, alaw)")
        self.format = format
        self.sample_rate = rate = format.carried_rate(sample_rate)
        self._transforms: list[Tempo | Resampler] = []
        if check_speed(speed) != 1:
            self._transforms.append(Tempo(speed, SAMPLE_RATE))
        if rate != SAMPLE_RATE:
            self._transforms.append(Resampler(SAMPLE_RATE, rate))
        self._is_plain = format in (Format.PCM, Format.WAV)
        self._bit_rate, self._mark = bit_rate, mark
        self._is_wav = in_wav or format is Format.WAV
        self._header = g711_wav_header(_G711[format], rate) if in_wav else b""
        self._written = 0  # samples
        self._is_finished = False

    @cached_property
    def _writer(self) -> PlainWriter | CodecWriter:
        """Opens the codec, which takes long, where the first samples are encoded."""
        if self._is_plain:
            return PlainWriter(self.format, self.sample_rate)
        return CodecWriter(self.format, self.sample_rate, self._bit_rate, self._mark)

    @property
    def media_type(self) -> str:
        """The media type of the stream in HTTP."""
        return (Format.WAV if self._is_wav else self.format).media_type

    @property
    def has_length(self) -> bool:
        """Return whether the header of a whole file has its length."""
        return self._is_wav or self.format is Format.FLAC

    def is_quick(self, samples: int) -> bool:
        """Return whether so many samples take less time than another thread takes to begin."""
        return self._is_plain and not self._transforms and samples <= _QUICK_SAMPLES

    def push(self, samples: Any) -> bytes:
        """Encode samples and return the bytes that are ready, possibly none.

        Args:
            samples: float32 (n,) at 24 kHz; values outside [-1, 1] are clipped.

        Raises:
            AudioError: the samples hold NaN or infinity or are more than one waveform, or the
                stream is finished.
        """
        self._check_unfinished()
        current = to_mono(samples, "samples")
        for transform in self._transforms:
            current = transform.push(current)
        return self._write(current)

    def finish(self) -> bytes:
        """Return the last bytes.

        A stream without samples becomes a valid file, too: PCM and G.711 are empty, WAV and FLAC
        consist of their headers, and the other formats hold one silent sample, since players refuse
        files without any.

        Raises:
            AudioError: the stream is finished already.
        """
        self._check_unfinished()
        self._is_finished = True
        data = b""
        for number, transform in enumerate(self._transforms):
            current = transform.finish()
            for later in self._transforms[number + 1 :]:
                current = later.push(current)
            data += self._write(current)
        return data + self._take_header() + self._writer.finish()

    def as_file(self, stream: bytes) -> bytes:
        """Return a whole stream with its length in the header, for formats that store it there.

        The length is unknown while a stream is written. Players accept that, but programs that
        read a whole WAV or FLAC file need it.

        Args:
            stream: all bytes of the stream.

        Raises:
            AudioError: the stream is not finished.
        """
        if not self._is_finished:
            raise AudioError("the encoder is not finished: its stream has no length yet")
        if self._is_wav:
            return with_wav_length(stream, self._written, 2 if self.format is Format.WAV else 1)
        return with_flac_length(stream, self._written) if self.format is Format.FLAC else stream

    def _write(self, samples: Samples) -> bytes:
        self._written += len(samples)
        return self._take_header() + self._writer.push(samples)

    def _take_header(self) -> bytes:
        header, self._header = self._header, b""
        return header

    def _check_unfinished(self) -> None:
        if self._is_finished:
            raise AudioError("the encoder is finished; create a new one for each stream")
