"""Trimming: silence is cut at both ends, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike

from ChatTTS.audio import trim_silence
from ChatTTS.errors import AudioError

RATE = 24_000
FRAME = 240


def burst(n: int, level: float = 0.5) -> np.ndarray:
    return (level * np.sin(2 * np.pi * 440 * np.arange(n) / RATE)).astype(np.float32)


def silence(n: int) -> np.ndarray:
    return np.zeros(n, np.float32)


def test_only_the_ends_are_cut() -> None:
    inside = np.concatenate([burst(4_800), silence(24_000), burst(4_800)])
    wav = np.concatenate([silence(12_000), inside, silence(9_600)])
    assert np.array_equal(trim_silence(wav, margin_s=0), inside)


def test_the_margin_is_kept_on_both_sides() -> None:
    wav = np.concatenate([silence(12_000), burst(4_800), silence(9_600)])
    assert np.array_equal(trim_silence(wav), wav[12_000 - 480 : 16_800 + 480])
    assert np.array_equal(trim_silence(wav, margin_s=9), wav)
    assert np.array_equal(trim_silence(burst(4_800)), burst(4_800))


def test_no_sample_of_speech_is_lost_off_the_frame_grid() -> None:
    wav = np.concatenate([silence(1_001), burst(3_333), silence(2_017)])
    found = trim_silence(wav, margin_s=0)
    assert 3_333 <= len(found) < 3_333 + 2 * FRAME
    assert np.count_nonzero(found) == np.count_nonzero(wav)


def test_the_threshold_is_relative_to_the_loudest_frame() -> None:
    quiet = np.concatenate([silence(2_400), burst(2_400, 0.02), burst(2_400, 0.2), silence(2_400)])
    assert len(trim_silence(quiet, margin_s=0)) == 4_800
    assert len(trim_silence(quiet * np.float32(0.1), margin_s=0)) == 4_800
    assert len(trim_silence(quiet, threshold_db=-15, margin_s=0)) == 2_400


def test_all_silence_becomes_empty() -> None:
    noise = 5e-4 * np.random.default_rng(0).standard_normal(24_000)
    silent: list[ArrayLike] = [silence(24_000), noise, [], silence(1)]
    for wav in silent:
        found = trim_silence(wav)
        assert found.shape == (0,)
        assert found.dtype == np.float32


def test_the_result_is_a_copy() -> None:
    wav = burst(4_800)
    found = trim_silence(wav)
    found[:] = 9
    assert np.array_equal(wav, burst(4_800))


def test_other_rates_types_and_shapes() -> None:
    wav = np.concatenate([silence(800), burst(800), silence(800)])
    assert len(trim_silence(wav, margin_s=0.01, sample_rate=8_000)) == 800 + 160
    expected = trim_silence(wav)
    assert np.array_equal(trim_silence(torch.from_numpy(wav)[None]), expected)
    assert trim_silence((wav * 32767).astype(np.int16)).shape == expected.shape


def test_arguments_out_of_range() -> None:
    for value in (0.0, 40.0, float("nan")):
        with pytest.raises(AudioError, match="threshold_db must be below 0"):
            trim_silence(burst(99), threshold_db=value)
    for value in (-0.1, float("nan"), float("inf")):
        with pytest.raises(AudioError, match="margin_s must be 0 or more"):
            trim_silence(burst(99), margin_s=value)
    with pytest.raises(AudioError, match="sample_rate must be a positive whole number"):
        trim_silence(burst(99), sample_rate=0)
    with pytest.raises(AudioError, match="more than one waveform"):
        trim_silence(np.zeros((2, 99)))
