"""The texts of the page, the documents and the examples are spoken well with any seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from ChatTTS.core import Chat
from ChatTTS.text import prepare
from recipes.voice.evaluation.speech_metrics import recognise, word_errors

from ..support.spoken_examples import all_examples, page_examples, teacher_seconds

SEEDS = range(10)
# A voice that has lost its way takes several times as long.
LONGEST = 1.6
# Percent of the words. The recogniser knows neither this voice nor names such as Riva.
MOST_WRONG, MOST_WRONG_OF_PAGE = 25, 40


@pytest.fixture(scope="module")
def voice() -> Iterator[Chat]:
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu", use_vllm=True)
    yield chat
    chat.unload()


def spoken(chat: Chat, texts: list[str], seed: int) -> list[np.ndarray]:
    params = chat.InferCodeParams(manual_seed=seed, show_tqdm=False, ensure_non_empty=False)
    waveforms = chat.infer(texts, skip_refine_text=True, params_infer_code=params)
    assert set(waveforms.finish_reasons) == {"stop"}
    return list(waveforms)


def words(chat: Chat, text: str) -> str:
    return " ".join(prepare(text, chat.normalizer))


def test_the_teacher_was_asked_for_all_of_them() -> None:
    """Run ``python -m tests.support.spoken_examples`` to ask the teacher anew."""
    assert list(teacher_seconds()) == all_examples()
    assert len(page_examples()) >= 4


@pytest.mark.slow
def test_none_takes_much_longer_than_the_teacher(voice: Chat) -> None:
    teacher = teacher_seconds()
    for seed in SEEDS:
        for text, samples in zip(teacher, spoken(voice, list(teacher), seed), strict=True):
            ratio = len(samples) / 24_000 / teacher[text]
            assert 0.6 < ratio < LONGEST, f"{text!r} with seed {seed}: {ratio:.2f}"


@pytest.mark.slow
@pytest.mark.parametrize("text", page_examples(), ids=lambda text: text[:20])
def test_the_page_is_heard(voice: Chat, text: str) -> None:
    waves = [spoken(voice, [text], seed)[0] for seed in SEEDS]
    found = word_errors([words(voice, text)] * len(waves), [recognise(wave) for wave in waves])
    assert found.rate <= MOST_WRONG_OF_PAGE


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_the_documents_are_heard(voice: Chat, seed: int) -> None:
    texts = [text for text in all_examples() if text not in page_examples()]
    waves = spoken(voice, texts, seed)
    found = word_errors([words(voice, text) for text in texts], [recognise(wave) for wave in waves])
    assert found.rate <= MOST_WRONG
