"""The figures of ``compare``, checked against closed forms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import soundfile

from ChatTTS.audio import Comparison, compare, save
from ChatTTS.audio.spectrum import HOP, N_FFT, log_spectra, mel, mel_rows
from ChatTTS.errors import AudioError


def noise(n: int = 24_000, seed: int = 0) -> np.ndarray:
    return (0.1 * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def test_identical_waveforms() -> None:
    found = compare(noise(), noise())
    assert found == Comparison(24_000, 24_000, 0.0, math.inf, 0.0, 24_000)
    assert found.identical
    assert str(found) == "identical: 24,000 samples (1.00 s)"


def test_a_change_of_level_has_known_numbers() -> None:
    a = noise()
    found = compare(a, a * np.float32(0.5))
    assert not found.identical
    assert found.max_difference == pytest.approx(np.abs(a).max() / 2)
    assert found.snr_db == pytest.approx(20 * math.log10(2), abs=1e-6)
    # Halving lowers every bin that stays above the floor by 6.02 dB.
    assert found.log_spectral_distance_db == pytest.approx(20 * math.log10(2), abs=0.01)


def test_one_changed_sample() -> None:
    a = noise()
    b = a.copy()
    b[100] += 0.25
    found = compare(a, b)
    assert found.max_difference == pytest.approx(0.25, abs=1e-6)
    energy = float(np.sum(np.square(a, dtype=np.float64)))
    assert found.snr_db == pytest.approx(10 * math.log10(energy / 0.25**2), abs=1e-4)
    assert found.log_spectral_distance_db > 0


def test_lengths_are_reported_and_the_common_part_compared() -> None:
    a = noise()
    found = compare(a, a[:20_000])
    assert (found.samples_a, found.samples_b) == (24_000, 20_000)
    assert (found.max_difference, found.log_spectral_distance_db) == (0.0, 0.0)
    assert found.snr_db == math.inf
    assert not found.identical
    assert str(found).splitlines()[0] == (
        "different: 24,000 samples (1.00 s) and 20,000 samples (0.83 s); "
        "only the first 20,000 are compared"
    )


def test_text_for_people() -> None:
    text = str(Comparison(48_000, 48_000, 0.012345, 41.24, 1.236, 48_000))
    assert text.splitlines() == [
        "different: 48,000 samples (1.00 s) in both",
        "  max difference         0.0123 of full scale",
        "  SNR                    41.2 dB",
        "  log-spectral distance  1.24 dB",
    ]


def test_a_silent_reference_has_no_signal() -> None:
    found = compare(np.zeros(5000), noise(5000))
    assert found.snr_db == -math.inf
    assert compare(np.zeros(5000), np.zeros(5000)).identical


def test_inaudible_differences_are_no_spectral_distance() -> None:
    a = noise()
    a[:8_000] = 0
    b = a.copy()
    b[:4_000] = 1e-7
    assert compare(a, b).log_spectral_distance_db == 0
    assert compare(a, b).max_difference > 0


def test_files_and_arrays(tmp_path: Path) -> None:
    a = noise()
    one = save(tmp_path / "one.wav", a, subtype="FLOAT")
    two = save(tmp_path / "two.flac", a)
    assert compare(one, a).identical
    assert compare(str(one), str(one)).identical
    assert 0 < compare(one, two).max_difference <= 2**-16
    assert compare((a * 32767).astype(np.int16), a).max_difference < 2**-14
    slow = save(tmp_path / "slow.wav", a, 8_000)
    assert compare(slow, slow).sample_rate == 8_000
    with pytest.raises(AudioError, match=r"rates differ: one\.wav has 24000, slow\.wav has 8000"):
        compare(one, slow)
    with pytest.raises(AudioError, match=r"slow\.wav has 8000, b has 24000"):
        compare(slow, a)
    assert compare(slow, (a * 32768).round() / 32768, sample_rate=8_000).identical


def test_unusable_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="b is empty"):
        compare(noise(), [])
    with pytest.raises(AudioError, match="a holds NaN"):
        compare([math.nan], noise())
    with pytest.raises(AudioError, match=r"b has shape \(2, 50\)"):
        compare(noise(), np.zeros((2, 50)))
    with pytest.raises(AudioError, match=r"none\.wav does not exist"):
        compare(tmp_path / "none.wav", noise())
    stereo = tmp_path / "stereo.wav"
    soundfile.write(stereo, np.zeros((100, 2)), 24_000)
    with pytest.raises(AudioError, match=r"stereo\.wav has 2 channels"):
        compare(stereo, stereo)


def test_a_full_scale_sine_has_0_db() -> None:
    n = np.arange(40 * N_FFT)
    blocks = list(log_spectra(np.sin(2 * np.pi * 64 * n / N_FFT).astype(np.float32)))
    spectrogram = np.concatenate(blocks)
    assert spectrogram.shape == (1 + len(n) // HOP, N_FFT // 2 + 1)
    assert spectrogram[10, 64] == pytest.approx(0, abs=1e-4)
    assert spectrogram[10].argmax() == 64
    # A periodic Hann window spreads a sine over exactly three bins, the outer ones at half.
    assert spectrogram[10, 65] == pytest.approx(-20 * math.log10(2), abs=1e-4)
    assert spectrogram[10, 66] == -80
    assert spectrogram[10, 200] == -80


def test_blocks_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    wav = noise(30_000)
    whole = np.concatenate(list(log_spectra(wav)))
    monkeypatch.setattr("ChatTTS.audio.spectrum._BLOCK", 7)
    assert np.array_equal(np.concatenate(list(log_spectra(wav))), whole)


def test_mel_rows_keep_levels_and_order() -> None:
    flat = mel_rows(np.full((3, 513), -20.0), 24_000, 160)
    assert flat.shape == (3, 160)
    assert np.allclose(flat, -20)
    ramp = mel_rows(np.arange(513.0)[None], 24_000, 160)[0]
    assert (np.diff(ramp) > 0).any()
    assert (np.diff(ramp) >= 0).all()
    assert ramp[0] == 0  # the lowest row is narrower than the lowest bin
    assert 505 < ramp[-1] < 512


def test_mel_is_that_of_htk() -> None:
    assert np.allclose(mel(np.array([0.0, 1000.0, 6300.0])), [0.0, 999.9855, 2595.0], atol=1e-3)
