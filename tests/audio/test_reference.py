"""Reference audio of any shape and rate becomes 24 kHz mono, or is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from ChatTTS.audio import reference_audio, save
from ChatTTS.errors import AudioError


def tone(rate: int = 24_000, seconds: float = 2.0, frequency: float = 440.0) -> np.ndarray:
    t = np.arange(round(seconds * rate)) / rate
    return (0.4 * np.sin(2 * np.pi * frequency * t)).astype(np.float32)


def test_24_khz_mono_is_taken_as_it_is() -> None:
    wav = tone()
    found = reference_audio(wav)
    assert found.dtype == np.float32
    assert np.array_equal(found, wav)
    found[:] = 0
    assert wav.any()  # the caller's array is not touched


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_every_rate_becomes_24_khz(tmp_path: Path, rate: int) -> None:
    expected = tone()
    path = save(tmp_path / "a.wav", tone(rate), rate, subtype="FLOAT")
    for found in (reference_audio(tone(rate), rate), reference_audio(path)):
        assert abs(len(found) - len(expected)) <= 1
        inner = slice(1000, 40_000)  # away from the resampler's edges
        assert np.abs(found[inner] - expected[inner]).max() < 1e-3


def test_resampling_folds_nothing_back() -> None:
    wav = tone(48_000) + tone(48_000, frequency=20_000)
    found = reference_audio(wav, 48_000)
    assert np.abs(found - tone())[1000:40_000].max() < 1e-3


def test_stereo_in_both_orders_and_from_a_file(tmp_path: Path) -> None:
    left, right = tone(), 0.5 * tone(frequency=300)
    expected = (left + right) / 2
    path = tmp_path / "a.wav"
    soundfile.write(path, np.stack([left, right], axis=1), 24_000, subtype="FLOAT")
    for source in (np.stack([left, right]), np.stack([left, right], axis=1), str(path)):
        assert np.allclose(reference_audio(source), expected, atol=1e-7)
    assert np.array_equal(reference_audio(left[None]), left)
    assert np.array_equal(reference_audio([left]), left)


def test_sample_types_mean_the_same_sound() -> None:
    wav = tone()
    for source, step in (
        ((wav * 32767).astype(np.int16), 2**-14),
        ((wav.astype(np.float64) * (2**31 - 1)).astype(np.int32), 1e-7),
        ((wav * 127 + 128).astype(np.uint8), 2**-6),
        (wav.astype(np.float64), 0),
        (torch.from_numpy(wav), 0),
        (torch.from_numpy((wav * 32767).astype(np.int16)), 2**-14),
    ):
        assert np.abs(reference_audio(source) - wav).max() <= step


def test_lengths_beyond_the_limits(tmp_path: Path) -> None:
    assert len(reference_audio(tone(seconds=1))) == 24_000
    assert len(reference_audio(tone(seconds=30))) == 720_000
    with pytest.raises(AudioError, match=r"lasts 0\.90 s, which is too short; .* 1 to 30 s"):
        reference_audio(tone(seconds=0.9))
    path = save(tmp_path / "long.wav", tone(8_000, 31), 8_000)
    with pytest.raises(AudioError, match=r"long\.wav lasts 31\.00 s, which is too long"):
        reference_audio(path)
    with pytest.raises(AudioError, match=r"lasts 0\.00 s"):
        reference_audio([])


def test_a_file_is_refused_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "long.wav", tone(8_000, 31), 8_000)

    def decode(*args: object, **kwargs: object) -> None:
        raise AssertionError("the samples were read")

    monkeypatch.setattr(soundfile.SoundFile, "read", decode)
    with pytest.raises(AudioError, match="too long"):
        reference_audio(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (np.zeros(48_000), "is silent"),
        (np.full(48_000, 0.5), "is silent"),
        (tone() * 1e-4, "is silent"),
        (tone() * 32768, "peak of 13107.* look like integer samples stored as float"),
        (tone() * 0.1 + 0.5, "constant offset of 0.5 that is stronger than its sound"),
        (np.where(np.arange(48_000) == 5, np.nan, tone()), "NaN or infinity in 1 of 48000"),
        (np.ones((9, 48_000)), r"shape \(9, 48000\); give \(n,\)"),
        (np.ones((1, 1, 48_000)), "give"),
        (np.zeros(48_000, np.int64), "int64"),
        (None, "of type NoneType"),
        ("missing.wav", "missing.wav does not exist"),
    ],
)
def test_unusable_references_say_why(source: object, message: str) -> None:
    with pytest.raises(AudioError, match=message):
        reference_audio(source)


def test_nan_in_a_file_and_a_rate_for_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    wav = tone()
    wav[7] = np.nan
    soundfile.write(path, wav, 24_000, subtype="FLOAT")
    with pytest.raises(AudioError, match=r"a\.wav holds NaN"):
        reference_audio(path)
    with pytest.raises(AudioError, match=r"sample_rate is for arrays; .* leave sample_rate out"):
        reference_audio(path, 24_000)
    with pytest.raises(AudioError, match="sample_rate must be a positive whole number"):
        reference_audio(tone(), 0)
