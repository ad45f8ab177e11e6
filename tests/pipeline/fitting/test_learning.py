"""How long the paces of a checkpoint take is learned from what an engine speaks at each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ChatTTS.core import Chat
from ChatTTS.model.generation import Cancellation
from ChatTTS.pipeline.fitting.learning import learn_lengths
from ChatTTS.pipeline.model import Model
from ChatTTS.pipeline.speech_lengths import SpeechLengths

from ...support.paced_engine import Frames, PacedEngine
from ..test_word_times import load
from .test_duration import FACTORS, by_level

HEADS = ((0, 0), (1, 1))


@pytest.fixture(scope="module")
def chat() -> Iterator[Chat]:
    chat = load(use_vllm=False)
    yield chat
    chat.unload()


def learned(chat: Chat, frames: Frames) -> SpeechLengths:
    with PacedEngine(chat, frames):
        return lengths_of(chat._model)


def lengths_of(model: Model | None) -> SpeechLengths:
    assert model is not None
    found = learn_lengths(model, HEADS, Cancellation(), show=False)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.slow
def test_the_paces_of_a_checkpoint_are_learned(chat: Chat) -> None:
    found = learned(chat, by_level)
    factors = {pace.tags: pace.factor for pace in found.paces}
    for level in range(10):
        assert factors[f"[speed_{level}]"] == pytest.approx(FACTORS[level], abs=0.02)
    assert [pace.factor for pace in found.paces] == sorted(factors.values())


def test_pairs_of_tags_close_the_gaps_between_paces(chat: Chat) -> None:
    def wide(levels: tuple[int, ...], sample: int) -> int:
        each = [100 if level >= 5 else 130 for level in levels]
        return round(sum(each) / len(each))

    found = learned(chat, wide)
    pairs = [pace for pace in found.paces if pace.tags.count("speed") == 2]
    assert pairs
    assert all(1.05 < pace.factor < 1.25 for pace in pairs)
    assert pairs[0].tags == "[speed_4][speed_5]"  # those that differ least


def test_tags_without_an_effect_need_no_pairs(chat: Chat) -> None:
    found = learned(chat, lambda levels, sample: 100)
    assert {pace.factor for pace in found.paces} == {1.0}
    assert len(found.paces) == 10


@pytest.mark.slow
def test_a_pace_that_loses_words_is_not_used(chat: Chat) -> None:
    with PacedEngine(chat, by_level) as engine:
        engine.skips.add((9,))
        found = lengths_of(chat._model)
    assert "[speed_9]" not in {pace.tags for pace in found.paces}


@pytest.mark.parametrize(
    ("prompt", "usual"), [("[speed_3]", 3), ("[oral_2][speed_7]", 7), ("[oral_2]", 5)]
)
def test_the_pace_that_a_checkpoint_names_is_the_measure(
    chat: Chat, prompt: str, usual: int
) -> None:
    assert chat._model is not None
    config = chat._model.config
    defaults = replace(config.defaults, code={"prompt": prompt})
    model = replace(chat._model, config=replace(config, defaults=defaults))
    with PacedEngine(chat, by_level):
        found = lengths_of(model)
    assert [pace.tags for pace in found.paces if pace.factor == 1] == [f"[speed_{usual}]"]
