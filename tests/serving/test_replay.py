"""What a second generation of a stream is compared by."""

from __future__ import annotations

import numpy as np
import pytest

from ChatTTS.audio.samples import Samples
from ChatTTS.pipeline.results import Piece
from ChatTTS.serving.errors import UnavailableError
from ChatTTS.serving.requests.replay import DeliveredSpeech, Replay

SOUND: Samples = np.random.default_rng(0).standard_normal(2000).astype(np.float32)


def pieces(sound: Samples, *cuts: int) -> list[Piece]:
    """Return the pieces of a sound that is cut at these places."""
    parts = np.split(sound, cuts)
    places = np.cumsum([0, *map(len, parts)])
    return [
        Piece(samples=part, position=int(at), utterance=0, text="", finish_reason=None)
        for at, part in zip(places[:-1], parts, strict=True)
    ]


def delivered(*cuts: int) -> DeliveredSpeech:
    """Return what a listener has that got 1000 samples in pieces with these cuts."""
    had = DeliveredSpeech()
    for piece in pieces(SOUND[:1000], *cuts):
        had.add(piece)
    return had


@pytest.mark.parametrize("cuts", [(), (1,), (7, 40, 41, 333), (1000,), (1500,)])
@pytest.mark.parametrize("earlier", [(), (31, 33), (500, 997)])
def test_a_second_generation_may_be_cut_elsewhere(
    earlier: tuple[int, ...], cuts: tuple[int, ...]
) -> None:
    replay = Replay(delivered(*earlier))
    fresh = [new for piece in pieces(SOUND, *cuts) if (new := replay.fresh(piece)) is not None]
    replay.check_complete()
    assert fresh[0].position == 1000
    np.testing.assert_array_equal(np.concatenate([new.samples for new in fresh]), SOUND[1000:])


@pytest.mark.parametrize("at", [0, 500, 960])
def test_another_sound_is_refused(at: int) -> None:
    other = SOUND.copy()
    other[at : at + 40] *= 1.0001
    replay, parts = Replay(delivered(250)), pieces(other, 300)
    assert replay.fresh(parts[0]) is None
    with pytest.raises(UnavailableError, match="would sound different"):
        replay.fresh(parts[1])
