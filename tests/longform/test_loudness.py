"""Loudness and true peak piece by piece, beside pyloudnorm and ffmpeg's meter on the whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import av
import av.filter
import numpy as np
import pyloudnorm
import pytest

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.longform.loudness import gain_for, limited, measured, true_peaks
from ChatTTS.longform.recording import _with_headroom
from ChatTTS.longform.settings import AUDIOBOOK, Loudness


@pytest.fixture(scope="module")
def noise() -> Samples:
    """Noise with parts of many levels and a silence, so that both gates close."""
    drawn = np.random.default_rng(1)
    levels = np.repeat(drawn.uniform(0, 0.3, 60), 2400)
    samples: Samples = (drawn.standard_normal(60 * 2400) * levels).astype(np.float32)
    samples[50_000:80_000] = 0
    return samples


def cut(samples: Samples) -> Iterator[Samples]:
    yield from np.split(samples, [1, 1, 7_777, 7_800, 60_001, 100_000])


def by_ffmpeg(samples: Samples) -> tuple[float, float]:
    """Return integrated loudness and true peak by ffmpeg's meter."""
    graph = av.filter.Graph()
    nodes = (
        graph.add_abuffer(sample_rate=SAMPLE_RATE, format="flt", layout="mono"),
        graph.add("ebur128", "peak=true:metadata=1"),
        graph.add("abuffersink"),
    )
    graph.link_nodes(*nodes).configure()
    frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), format="flt", layout="mono")
    frame.sample_rate, frame.pts = SAMPLE_RATE, 0
    graph.push(frame)
    graph.push(None)
    last = {}
    while True:
        try:
            last = dict(graph.pull().metadata)
        except (av.BlockingIOError, av.EOFError):
            return float(last["lavfi.r128.I"]), float(last["lavfi.r128.true_peak"])


def test_the_loudness_is_that_of_the_whole(noise: Samples) -> None:
    whole = pyloudnorm.Meter(SAMPLE_RATE).integrated_loudness(noise.astype(np.float64))
    loudness, peak = measured(cut(noise))
    assert loudness == pytest.approx(whole, abs=2e-3)  # its blocks begin a sample off
    theirs = by_ffmpeg(noise)
    assert loudness == pytest.approx(theirs[0], abs=0.2)
    assert peak == pytest.approx(theirs[1], rel=0.03)


def test_silence_and_short_sounds_have_no_loudness(noise: Samples) -> None:
    for samples in (np.zeros(SAMPLE_RATE, np.float32), noise[:9_000]):
        assert measured([samples])[0] == -math.inf
    assert gain_for(-math.inf, AUDIOBOOK) == 1
    assert gain_for(-25.0, AUDIOBOOK) == pytest.approx(10 ** (6 / 20))


@pytest.mark.parametrize(
    ("name", "peak", "written"),
    [("a.flac", -1, -1), ("a.wav", -1, -1), ("a.m4b", -1, -2), ("a.OPUS", -19.5, -20)],
)
def test_lossy_formats_keep_room_for_the_peaks_that_they_add(
    name: str, peak: float, written: float
) -> None:
    assert _with_headroom(Loudness(-18.0, peak), Path(name)) == Loudness(-18.0, written)


def test_peaks_between_samples_are_found() -> None:
    # A quarter of the rate, sampled beside its peaks.
    wave = np.sin(np.pi / 2 * np.arange(400) + np.pi / 4).astype(np.float32)
    assert np.abs(wave).max() == pytest.approx(0.7071, abs=1e-3)
    assert true_peaks(wave)[100:300].max() == pytest.approx(1.0, abs=0.01)


def test_the_limiter_bounds_the_true_peak_wherever_the_sound_is_cut(noise: Samples) -> None:
    gain = gain_for(measured([noise])[0], Loudness()) * 4
    assert measured([noise * np.float32(gain)])[1] > 1.5
    whole = np.concatenate(list(limited([noise], gain, -1.0)))
    assert np.array_equal(np.concatenate(list(limited(cut(noise), gain, -1.0))), whole)
    assert len(whole) == len(noise)
    assert measured([whole])[1] <= 10 ** (-1 / 20)
    assert by_ffmpeg(whole)[1] <= 10 ** (-1 / 20)
    # The gain changes slowly: no step between samples that the sound does not have.
    loud = np.abs(noise) > 0.05
    steps = np.diff(whole[loud] / noise[loud])[np.diff(np.flatnonzero(loud)) == 1]
    assert np.abs(steps).max() < gain / 20


def test_a_sound_below_the_ceiling_is_unchanged(noise: Samples) -> None:
    quiet = noise * np.float32(0.01)
    assert np.array_equal(np.concatenate(list(limited(cut(quiet), 1.0, -1.0))), quiet)
