"""The speakers of the bundled voice: the four voices, and the speakers between them."""

from __future__ import annotations

import numpy as np
import pytest

from recipes.bundled_voice import speakers
from recipes.bundled_voice.types import VOICES, Spoken


@pytest.mark.smoke
def test_every_voice_is_a_corner_and_as_far_from_each_other() -> None:
    points = np.stack([speakers.voice_speaker(voice).point for voice in VOICES])
    cosines = points @ points.T
    np.testing.assert_allclose(cosines, np.where(np.eye(4) > 0, 1, -1 / 3), atol=1e-6)


def test_draws_repeat_lie_near_their_voice_and_vary_in_size() -> None:
    drawn = [speakers.drawn_speaker("awb", 5, index) for index in range(200)]
    again = speakers.drawn_speaker("awb", 5, 3)
    np.testing.assert_array_equal(drawn[3].point, again.point)
    others = [s for s in drawn if not s.is_voice]
    assert 40 < len(others) < 80
    assert np.mean([s.point[:3] @ speakers.CORNERS[2] for s in others]) > 0.6
    sizes = [s.size for s in others]
    assert 0.92 <= min(sizes) < 0.97 < 1.03 < max(sizes) <= 1.08
    assert {s.size for s in drawn if s.is_voice} == {1.0}


def test_larger_speakers_are_slower_and_lower() -> None:
    samples = np.sin(2 * np.pi * 200 * np.arange(24_000) / 24_000).astype(np.float32)
    starts = np.array([0, 20, 40], np.int32)
    sounds = np.repeat(np.array([0, 9, 0], np.int8), [10, 20, 16])
    larger = speakers.stretched(Spoken("abc", "rms", 5, samples, starts, sounds), 1.05)
    assert np.flatnonzero(larger.sounds)[[0, -1]].tolist() == [10, 30]
    for frames in range(20, 2000, 20):  # stretched to whole frames
        silence = Spoken("a", "rms", 5, np.zeros(512 * frames, np.float32), starts, sounds)
        changed = speakers.stretched(silence, 1.05)
        assert len(changed.sounds) == changed.frames == frames * 1.05
    assert len(larger.samples) == 25_200
    assert larger.starts.tolist() == [0, 21, 42]
    spectrum = np.abs(np.fft.rfft(larger.samples[:24_000]))
    assert abs(int(spectrum.argmax()) - 200 / 1.05) < 1.5
