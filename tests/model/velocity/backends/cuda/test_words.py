"""Every path of the language model gives equal words and equal faults for equal seeds.

The weights are random, so that each utterance has faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ChatTTS.core import Chat
from ChatTTS.model.velocity import configs
from ChatTTS.model.velocity.configs import EngineArgs
from ChatTTS.pipeline.results import SpokenText, Waveforms

from .....pipeline.test_word_times import OTHER, SETTINGS, TEXT, load
from .....support.torch_references import use_torch_references
from .test_engine import take_triton

# Of the reference, by seed.
Spoken = dict[int, Waveforms]


@pytest.fixture(scope="module")
def reference() -> Spoken:
    """Speech of the standard path, utterance by utterance."""
    chat = load(use_vllm=False)
    return {seed: spoken(chat, [TEXT, OTHER], seed) for seed in (3, 4)}


@pytest.fixture
def on_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    """Velocity as it runs on a GPU, with torch in the kernels' place."""
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    chat = load(use_vllm=True)
    yield chat
    chat.unload()


def spoken(chat: Chat, texts: str | list[str], seed: int, **changes: Any) -> Waveforms:
    params = {**SETTINGS, "manual_seed": seed, **changes}
    waveforms: Waveforms = chat.infer(
        texts, skip_refine_text=True, params_infer_code=params, guard="report"
    )
    assert all(row.faults for row in waveforms.rows)
    return waveforms


def check(found: SpokenText, expected: SpokenText) -> None:
    """Check words and faults; only the confidence may differ, by rounding."""
    assert found.faults == expected.faults
    words = zip(found.words, expected.words, strict=True)
    for own, other in words:
        assert own.confidence == pytest.approx(other.confidence, abs=0.002)
        assert replace(own, confidence=0) == replace(other, confidence=0)


def check_chat(chat: Chat, reference: Spoken) -> None:
    """Check a whole batch, and streams of one text each."""
    for seed, expected in reference.items():
        for row, other in zip(spoken(chat, [TEXT, OTHER], seed).rows, expected.rows, strict=True):
            check(row, other)
    stream = chat.stream(TEXT, skip_refine_text=True, params_infer_code=SETTINGS, guard="report")
    list(stream)
    check(stream.rows[0], reference[3].rows[0])


@pytest.mark.slow
def test_velocity(reference: Spoken) -> None:
    chat = load(use_vllm=True)
    check_chat(chat, reference)
    chat.unload()


@pytest.mark.slow
def test_captured_steps(on_torch: Chat, reference: Spoken) -> None:
    check_chat(on_torch, reference)


@pytest.mark.thorough
def test_the_kernels_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two short texts, with Triton's kernels in the interpreter."""
    texts, changes = ["one day.", "hello."], {"min_new_token": 8, "max_new_token": 8}
    expected = spoken(load(), texts, 3, **changes)
    take_triton(monkeypatch, late=True)
    # Fewer rows are fewer graphs.
    small = partial(EngineArgs, max_num_seqs=2, max_num_batched_tokens=32)
    monkeypatch.setattr(configs, "EngineArgs", small)
    chat = load(use_vllm=True)
    found = spoken(chat, texts, 3, **changes)
    chat.unload()
    for row, other in zip(found.rows, expected.rows, strict=True):
        check(row, other)
