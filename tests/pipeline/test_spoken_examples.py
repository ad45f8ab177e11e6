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
# The recogniser hears each text with one seed of so many, and other texts with other seeds.
HEARD_OF = 5
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


def wrong_words(chat: Chat, heard: list[tuple[str, np.ndarray]]) -> float:
    """Return the percent of the words of texts that the recogniser does not hear."""
    words = [" ".join(prepare(text, chat.normalizer)) for text, _ in heard]
    return word_errors(words, [recognise(wave) for _, wave in heard]).rate


def test_the_teacher_was_asked_for_all_of_them() -> None:
    """Run ``python -m tests.support.spoken_examples`` to ask the teacher anew."""
    assert list(teacher_seconds()) == all_examples()
    assert len(page_examples()) >= 4


@pytest.mark.slow
def test_all_are_as_long_as_the_teacher_speaks_them_and_are_heard(voice: Chat) -> None:
    """Every seed speaks all texts, and every text is heard with some seeds."""
    teacher, page = teacher_seconds(), page_examples()
    heard: dict[bool, list[tuple[str, np.ndarray]]] = {True: [], False: []}
    for seed in SEEDS:
        waves = spoken(voice, list(teacher), seed)
        for number, (text, samples) in enumerate(zip(teacher, waves, strict=True)):
            ratio = len(samples) / 24_000 / teacher[text]
            assert 0.6 < ratio < LONGEST, f"{text!r} with seed {seed}: {ratio:.2f}"
            if number % HEARD_OF == seed % HEARD_OF:
                heard[text in page].append((text, samples))
    for text in page:
        assert wrong_words(voice, [each for each in heard[True] if each[0] == text]) <= (
            MOST_WRONG_OF_PAGE
        ), text
    assert wrong_words(voice, heard[False]) <= MOST_WRONG
