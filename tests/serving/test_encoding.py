"""Encode speech in every format, piece by piece, and decode it with other libraries."""

from __future__ import annotations

import gc
import io
import struct
import weakref

import av
import numpy as np
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

from ChatTTS.audio.pcm import pcm_bytes, to_int16
from ChatTTS.errors import AudioError
from ChatTTS.serving.encoding import Encoder, Format

RATE = 24_000
LOSSY = (Format.MP3, Format.OPUS, Format.AAC)
FORMATS = tuple(Format)
Samples = NDArray[np.float32]


def voice(seconds: float = 1.0, seed: int = 0) -> Samples:
    """Make a sound like a voice: a melody with overtones, changing loudness and breath noise."""
    times = np.arange(round(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(170 + 60 * np.sin(2 * np.pi * 1.3 * times)) / RATE
    tone = sum(np.sin(k * phase) / k for k in range(1, 9))
    loudness = 0.15 + 0.1 * np.sin(2 * np.pi * 3.1 * times)
    breath = 0.005 * np.random.default_rng(seed).standard_normal(len(times))
    return (loudness * tone + breath).astype(np.float32)


def sine(frequency: float, seconds: float) -> Samples:
    times = np.arange(round(seconds * RATE)) / RATE
    return (0.5 * np.sin(2 * np.pi * frequency * times)).astype(np.float32)


def pieces(samples: Samples, seed: int) -> list[Samples]:
    """Cut samples at random into empty pieces, pieces of one sample and long pieces."""
    draws = np.random.default_rng(seed)
    near = np.arange(draws.integers(2, 40))
    anywhere = draws.integers(0, len(samples), 12)
    cuts = np.sort(np.concatenate([near, anywhere, anywhere[:3]]))
    return np.split(samples, cuts)


def written(target: Encoder, parts: list[Samples]) -> bytes:
    return b"".join([*map(target.push, parts), target.finish()])


def whole(format: Format, samples: Samples, rate: int = RATE, speed: float = 1.0) -> bytes:
    return written(Encoder(format, rate, speed), [samples])


def spoken(samples: Samples, rate: int = RATE, speed: float = 1.0) -> Samples:
    """Encode samples as PCM, and return the decoded samples as floats."""
    return (np.frombuffer(whole(Format.PCM, samples, rate, speed), "<i2") / 32768).astype("f4")


def decoded(data: bytes) -> tuple[NDArray[np.generic], int]:
    """Return samples [n] and their rate in Hz, as ffmpeg reads the file."""
    with av.open(io.BytesIO(data)) as file:
        rate = file.streams.audio[0].rate
        frames = [frame.to_ndarray() for frame in file.decode(audio=0)]
        assert all(len(frame) == 1 for frame in frames), "the sound is not mono"
        return np.concatenate([f[0] for f in frames] or [np.zeros(0)]), rate


def heard_frequency(samples: Samples, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum) * rate / len(samples))


def best_match(reference: Samples, found: NDArray[np.generic]) -> tuple[float, int]:
    """Return the highest correlation, and the delay of ``found`` at which it occurs."""
    size = 1 << (len(reference) + len(found)).bit_length()
    products = np.fft.irfft(np.fft.rfft(found, size) * np.fft.rfft(reference, size).conj())
    delay = int(np.argmax(products[: len(found)]))
    part = found[delay : delay + len(reference)].astype(np.float64)
    return float(np.corrcoef(reference[: len(part)], part)[0, 1]), delay


class TestFormat:
    def test_names(self) -> None:
        assert [Format.parse(f.value) for f in FORMATS] == list(FORMATS)
        assert Format.parse("Mp3") is Format.MP3
        assert Format.parse("OGGOPUS") is Format.OPUS

    def test_unknown_names_are_answered_with_the_known_ones(self) -> None:
        with pytest.raises(AudioError, match="unknown audio format 'ogg'") as caught:
            Format.parse("ogg")
        for name in ("mp3", "opus", "aac", "flac", "wav", "pcm", "mulaw", "alaw"):
            assert name in str(caught.value)

    def test_kinds(self) -> None:
        assert Format.MP3.media_type == "audio/mpeg"
        assert Format.OPUS.media_type == "audio/ogg"
        assert len({f.media_type for f in FORMATS}) == 8

    def test_rates_that_a_format_does_not_know_are_raised(self) -> None:
        assert [Format.OPUS.carried_rate(r) for r in (8000, 22050, 44100)] == [8000, 24000, 48000]
        assert [Format.MP3.carried_rate(r) for r in (8001, 44100)] == [11025, 44100]
        assert Format.PCM.carried_rate(8001) == 8001

    @pytest.mark.parametrize("rate", [0, 7999, 48001, 16000.5, "16000", True])
    def test_rates_out_of_range(self, rate: object) -> None:
        with pytest.raises(AudioError, match="sample_rate must be"):
            Encoder(Format.PCM, rate)  # type: ignore[arg-type]


class TestExactFormats:
    def test_pcm(self) -> None:
        samples = voice() * 8  # some of it is clipped
        assert np.abs(samples).max() > 1
        assert whole(Format.PCM, samples) == pcm_bytes(samples)

    def test_wav(self) -> None:
        data = whole(Format.WAV, voice(), 16_000)
        assert struct.unpack_from("<I", data, 4) == struct.unpack_from("<I", data, 40)
        assert data[40:44] == b"\xff\xff\xff\xff"
        assert data[44:] == whole(Format.PCM, voice(), 16_000)
        samples, rate = soundfile.read(io.BytesIO(data), dtype="int16")
        assert (samples.tobytes(), rate) == (data[44:], 16_000)

    @pytest.mark.parametrize("rate", [8_000, 24_000, 44_100])
    def test_flac(self, rate: int) -> None:
        data = whole(Format.FLAC, voice(), rate)
        samples, found_rate = decoded(data)
        assert found_rate == rate
        assert samples.astype("<i2").tobytes() == whole(Format.PCM, voice(), rate)
        assert len(data) < len(samples) * 2

    def test_flac_by_another_decoder(self) -> None:
        data = bytearray(whole(Format.FLAC, voice()))
        assert struct.unpack_from(">I", data, 22) == (0,)  # the length is not known
        struct.pack_into(">I", data, 22, RATE)  # libsndfile refuses a file without a length
        samples, _ = soundfile.read(io.BytesIO(data), dtype="int16")
        assert np.array_equal(samples, to_int16(voice()))

    @pytest.mark.parametrize("format", [Format.MULAW, Format.ALAW])
    def test_g711(self, format: Format) -> None:
        data = whole(format, voice(), 8_000)
        expected = spoken(voice(), 8_000)
        subtype = {Format.MULAW: "ULAW", Format.ALAW: "ALAW"}[format]
        samples, _ = soundfile.read(
            io.BytesIO(data), samplerate=8_000, channels=1, format="RAW", subtype=subtype
        )
        assert len(samples) == len(expected)
        # A quantisation step is at most a 32nd of the amplitude, and small near silence.
        assert np.all(np.abs(samples - expected) <= np.abs(expected) / 32 + 1 / 2048)


class TestLossyFormats:
    @pytest.mark.parametrize("format", LOSSY)
    @pytest.mark.parametrize("rate", [8_000, 24_000, 44_100])
    def test_the_sound_is_the_same(self, format: Format, rate: int) -> None:
        data = whole(format, voice(2), rate)
        samples, found_rate = decoded(data)
        at_rate = Encoder(format, rate).sample_rate
        assert found_rate == (48_000 if format is Format.OPUS else at_rate)
        reference = soxr.resample(voice(2), RATE, found_rate)
        if format is Format.OPUS and at_rate < found_rate:
            reference = soxr.resample(soxr.resample(voice(2), RATE, at_rate), at_rate, found_rate)
        match, delay = best_match(reference, samples)
        assert match > 0.97
        assert abs(reference.std() / samples.std() - 1) < 0.1
        if format is Format.OPUS:
            assert len(samples) == len(reference)
            assert delay <= 2
        else:
            assert delay <= 1200
            assert 0 <= len(samples) - len(reference) - delay <= 2 * 1152

    def test_opus_by_another_decoder(self) -> None:
        """libogg drops pages with a wrong checksum; the length is exact."""
        samples, rate = soundfile.read(io.BytesIO(whole(Format.OPUS, voice(2)[:-7])))
        assert rate == RATE
        assert len(samples) == 2 * RATE - 7
        assert best_match(voice(2), samples)[0] > 0.97

    def test_opus_pages_go_one_by_one_and_the_last_says_so(self) -> None:
        data = whole(Format.OPUS, voice())
        starts = [at for at in range(len(data)) if data.startswith(b"OggS", at)]
        assert [data[at + 5] for at in starts] == [2, *[0] * (len(starts) - 2), 4]
        assert [struct.unpack_from("<I", data, at + 18)[0] for at in starts] == [
            *range(len(starts))
        ]
        granules = [struct.unpack_from("<q", data, at + 6)[0] for at in starts]
        assert granules[:2] == [0, 0]  # of the two headers
        granules = granules[2:]
        assert granules[:-1] == [960 * (k + 1) for k in range(len(granules) - 1)]
        (skipped,) = struct.unpack_from("<H", data, data.index(b"OpusHead") + 10)
        assert granules[-1] == 48_000 + skipped

    @pytest.mark.parametrize("format", LOSSY)
    def test_size(self, format: Format) -> None:
        bits = {Format.MP3: 64_000, Format.AAC: 64_000, Format.OPUS: 32_000 + 28 * 8 * 50}[format]
        assert 0.7 * bits < len(whole(format, voice(4))) * 8 / 4 < 1.2 * bits

    @pytest.mark.parametrize("format", LOSSY)
    def test_loud_samples_are_clipped(self, format: Format) -> None:
        samples = sine(300, 0.5) * 8
        assert whole(format, samples) == whole(format, np.clip(samples, -1, 1))


class TestPieces:
    @pytest.mark.parametrize("format", FORMATS)
    @pytest.mark.parametrize(("rate", "speed"), [(RATE, 1.0), (16_000, 1.0), (48_000, 0.75)])
    def test_cuts_change_no_byte(self, format: Format, rate: int, speed: float) -> None:
        samples = voice(0.7)
        expected = whole(format, samples, rate, speed)
        for seed in range(3):
            assert written(Encoder(format, rate, speed), pieces(samples, seed)) == expected

    @pytest.mark.parametrize("format", FORMATS)
    def test_single_samples(self, format: Format) -> None:
        samples = voice(0.07)
        one_by_one = [samples[n : n + 1] for n in range(len(samples))]
        assert written(Encoder(format), one_by_one) == whole(format, samples)

    @pytest.mark.parametrize(
        ("format", "needed"),
        [
            (Format.PCM, 1),
            (Format.WAV, 1),
            (Format.MULAW, 1),
            (Format.ALAW, 1),
            (Format.OPUS, 480),
            (Format.FLAC, 576),
            (Format.MP3, 1152),
            (Format.AAC, 2048),
        ],
    )
    def test_first_sound_comes_early(self, format: Format, needed: int) -> None:
        """After so many samples the encoder has given a frame of sound, not only the header."""
        target = Encoder(format)
        target.push(voice()[:0])  # the header
        assert not target.push(voice()[: needed - 1])
        assert target.push(voice()[needed - 1 : needed])
        ready = target.push(voice()[needed:])
        assert len(ready) > 0.8 * len(whole(format, voice()[needed:]))

    @pytest.mark.parametrize("format", FORMATS)
    def test_most_of_a_second_is_ready_after_it(self, format: Format) -> None:
        for rate, speed in ((RATE, 1.0), (16_000, 1.0), (44_100, 2.0)):
            ready = Encoder(format, rate, speed).push(voice())
            assert len(ready) > 0.4 * len(whole(format, voice(), rate, speed)), (rate, speed)

    def test_encoders_do_not_influence_each_other(self) -> None:
        for format in FORMATS:
            sounds = [voice(0.5, seed) for seed in (1, 2)]
            encoders = [Encoder(format, 16_000, 1.5) for _ in sounds]
            data = [b"", b""]
            for start in range(0, len(sounds[0]), 3000):
                for n in (0, 1):
                    data[n] += encoders[n].push(sounds[n][start : start + 3000])
            data = [got + each.finish() for got, each in zip(data, encoders, strict=True)]
            assert data == [whole(format, sound, 16_000, 1.5) for sound in sounds]

    @pytest.mark.parametrize("format", FORMATS)
    def test_an_encoder_that_is_let_go_is_freed_at_once(self, format: Format) -> None:
        target = Encoder(format, 16_000, 0.4)
        target.push(voice(0.3))
        alive: list[weakref.ref[object]] = [weakref.ref(target), weakref.ref(target._writer)]
        gc.disable()
        try:
            del target
            assert [each() for each in alive] == [None, None]
        finally:
            gc.enable()

    @pytest.mark.parametrize("format", FORMATS)
    def test_the_samples_of_the_caller_stay(self, format: Format) -> None:
        samples = voice(0.2) * 8
        samples.flags.writeable = False
        whole(format, samples, 16_000, 2)
        target = Encoder(format)
        loose = samples.copy()
        data = target.push(loose)
        loose[:] = 0  # the encoder has read the samples, so this changes nothing
        assert data + target.finish() == whole(format, samples)


class TestRate:
    @pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 44_101])
    def test_as_resampled_at_once(self, rate: int) -> None:
        samples = voice(1.01)
        expected = soxr.resample(samples, RATE, rate, quality="HQ")
        joined = np.frombuffer(
            written(Encoder(Format.PCM, rate), pieces(samples, 5)), "<i2"
        ).astype(int)
        assert len(joined) == len(expected) == round(len(samples) * rate / RATE)
        assert np.abs(joined - to_int16(expected)).max() <= 1

    @pytest.mark.parametrize("rate", [8_000, 44_100])
    def test_a_sine_keeps_its_frequency(self, rate: int) -> None:
        resampled = spoken(sine(440, 1), rate)
        assert heard_frequency(resampled, rate) == pytest.approx(440, abs=1.5)
        assert np.abs(resampled[1000:-1000]).max() == pytest.approx(0.5, abs=0.01)


class TestTempo:
    SPEEDS = (0.25, 0.4, 0.5, 0.8, 0.97, 1.1, 1.5, 2.0, 2.7, 4.0)

    @pytest.mark.parametrize("speed", SPEEDS)
    def test_length_and_pitch(self, speed: float) -> None:
        changed = spoken(sine(440, 2), speed=speed)
        assert len(changed) == round(2 * RATE / speed)
        assert heard_frequency(changed, RATE) == pytest.approx(440, abs=5)
        # No gaps, also not at the ends.
        loudness = np.sqrt((changed[: len(changed) // 400 * 400].reshape(-1, 400) ** 2).mean(1))
        assert loudness[1:-3].min() > 0.25

    @pytest.mark.parametrize("speed", SPEEDS)
    def test_a_sound_comes_at_its_time_divided_by_the_speed(self, speed: float) -> None:
        high = spoken(np.concatenate([sine(300, 1), sine(1200, 1)]), speed=speed)
        cut = round(RATE / speed)
        slack = 1500
        assert heard_frequency(high[: cut - slack], RATE) == pytest.approx(300, abs=20)
        assert heard_frequency(high[cut + slack :], RATE) == pytest.approx(1200, abs=20)

    @pytest.mark.parametrize("speed", SPEEDS)
    def test_cuts_change_nothing(self, speed: float) -> None:
        samples = voice(0.6)
        expected = whole(Format.PCM, samples, speed=speed)
        for seed in range(3):
            parts = pieces(samples, seed)
            assert written(Encoder(Format.PCM, speed=speed), parts) == expected

    @pytest.mark.parametrize("speed", [0.3, 1.7])
    @pytest.mark.parametrize("rate", [8_000, 48_000])
    def test_together_with_another_rate(self, speed: float, rate: int) -> None:
        samples = voice(0.6)
        expected = soxr.resample(spoken(samples, speed=speed), RATE, rate, quality="HQ")
        changed = spoken(samples, rate, speed)
        assert len(changed) == len(expected)
        assert np.abs(changed - expected).max() < 1e-4

    @pytest.mark.parametrize("count", [0, 1, 7, 100, 479, 480, 481, 1000])
    @pytest.mark.parametrize("speed", [0.25, 0.8, 1.3, 4.0])
    def test_short_sounds(self, count: int, speed: float) -> None:
        samples = voice()[5000 : 5000 + count]
        changed = spoken(samples, speed=speed)
        assert len(changed) == round(count / speed)
        if count > 4:
            assert changed.any()

    def test_normal_speed_leaves_every_sample(self) -> None:
        assert whole(Format.PCM, voice(), speed=1) == pcm_bytes(voice())

    @pytest.mark.parametrize("speed", [0, 0.24, 4.01, -1, float("nan"), float("inf"), "1", True])
    def test_speeds_out_of_range(self, speed: object) -> None:
        with pytest.raises(AudioError, match=r"speed must be .*from 0.25 to 4"):
            Encoder(Format.PCM, speed=speed)  # type: ignore[arg-type]


class TestEnds:
    @pytest.mark.parametrize("format", FORMATS)
    def test_an_empty_stream(self, format: Format) -> None:
        expected = {Format.PCM: 0, Format.MULAW: 0, Format.ALAW: 0, Format.WAV: 44, Format.FLAC: 42}
        data = Encoder(format, 16_000, 0.5).finish()
        assert data == whole(format, voice()[:0], 16_000, 0.5)
        if format in expected:
            assert len(data) == expected[format]
        if data:
            samples, _ = decoded(data)
            assert not np.abs(samples.astype(float)).max(initial=0) > 0.01

    @pytest.mark.parametrize("format", FORMATS)
    def test_nothing_goes_in_after_the_end(self, format: Format) -> None:
        target = Encoder(format)
        target.finish()
        with pytest.raises(AudioError, match="the encoder is finished"):
            target.push(voice(0.1))
        with pytest.raises(AudioError, match="the encoder is finished"):
            target.finish()

    @pytest.mark.parametrize("format", FORMATS)
    def test_samples_that_are_no_sound(self, format: Format) -> None:
        target = Encoder(format)
        with pytest.raises(AudioError, match="NaN or infinity in 1 of 2"):
            target.push(np.array([0, np.nan], dtype=np.float32))
        with pytest.raises(AudioError, match="more than one waveform"):
            target.push(np.zeros((2, 2), dtype=np.float32))
        assert target.push(voice(0.3)) + target.finish() == whole(format, voice(0.3))


@pytest.mark.parametrize("format", [Format.WAV, Format.FLAC])
@pytest.mark.parametrize("speed", [1.0, 1.5])
def test_a_whole_file_tells_its_length(format: Format, speed: float) -> None:
    samples = (0.1 * np.sin(np.arange(10_000) / 9)).astype(np.float32)
    writer = Encoder(format, speed=speed)
    stream = writer.push(samples[:777]) + writer.push(samples[777:])
    with pytest.raises(AudioError, match="not finished"):
        writer.as_file(stream)
    file = writer.as_file(stream + writer.finish())
    read, rate = soundfile.read(io.BytesIO(file))
    assert (len(read), rate) == (round(10_000 / speed), 24_000)


def test_short_pieces_without_a_codec_are_quick() -> None:
    assert Encoder(Format.PCM).is_quick(RATE)
    assert Encoder(Format.WAV).is_quick(0)
    assert not Encoder(Format.PCM).is_quick(60 * RATE)
    assert not Encoder(Format.MP3).is_quick(RATE)
    assert not Encoder(Format.PCM, sample_rate=16_000).is_quick(RATE)
    assert not Encoder(Format.PCM, speed=1.5).is_quick(RATE)
