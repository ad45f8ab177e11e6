"""Passages that are made longer and shorter at the same pitch."""

from __future__ import annotations

import numpy as np
import pytest

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.audio.stretch import stretched


def wave(seconds: float, hertz: float = 180.0) -> Samples:
    time = np.arange(round(seconds * SAMPLE_RATE)) / SAMPLE_RATE
    samples: Samples = (np.sin(2 * np.pi * hertz * time) * 0.3).astype(np.float32)
    return samples


@pytest.mark.parametrize("factor", [0.7, 0.85, 1.15, 1.3, 1.8])
@pytest.mark.parametrize("seconds", [0.2, 0.5, 1.3])
def test_the_length_changes_and_the_ends_stay(factor: float, seconds: float) -> None:
    given = wave(seconds)
    result = stretched(given, factor)
    assert len(result) == pytest.approx(len(given) * factor, abs=0.015 * SAMPLE_RATE)
    assert np.array_equal(result[:240], given[:240])
    assert np.array_equal(result[-240:], given[-240:])


@pytest.mark.parametrize("factor", [0.8, 1.3])
def test_the_pitch_and_the_level_stay(factor: float) -> None:
    result = stretched(wave(1.0), factor)
    spectrum = np.abs(np.fft.rfft(result * np.hanning(len(result))))
    assert np.argmax(spectrum) * SAMPLE_RATE / len(result) == pytest.approx(180, abs=2)
    assert np.sqrt(np.mean(result**2)) == pytest.approx(0.3 / np.sqrt(2), rel=0.03)
    assert np.abs(np.diff(result)).max() < 0.03  # no step at a joint


@pytest.mark.parametrize("factor", [0.8, 1.3])
def test_a_joint_of_unlike_waves_is_faded(factor: float) -> None:
    """A slope has no two places that are alike, so each joint has a height."""
    slope = np.linspace(-0.3, 0.3, SAMPLE_RATE, dtype=np.float32)
    assert np.abs(np.diff(stretched(slope, factor))).max() < 1e-4


def test_short_passages_and_a_factor_of_one_stay() -> None:
    for given, factor in ((wave(0.03), 1.3), (wave(0.5), 1.0), (wave(0.0), 0.8)):
        result = stretched(given, factor)
        assert np.array_equal(result, given)
        assert result is not given
