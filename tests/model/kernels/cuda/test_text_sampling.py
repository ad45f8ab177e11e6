"""The kernel of draws from large vocabularies draws what the reference draws."""

from __future__ import annotations

# Before anything that imports Triton, whose own functions read its setting as they are declared.
from ....support.kernel_tools import DEVICE  # isort: skip

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.model.velocity.backends.cuda.sampler import TritonSampler
from ChatTTS.model.velocity.backends.torch.sampler import TorchSampler
from ChatTTS.model.velocity.loaded_model import SamplerOutput

from ....support.sampling_cases import PLAIN, make_rows

# Ids of one whole part and of most of another one.
MANY = (1, 3800)


@pytest.fixture(autouse=True)
def _quiet_interpreter() -> Iterator[None]:
    """Silence NumPy, on which the interpreter computes: it warns of every overflow and NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def assert_same(found: SamplerOutput, expected: SamplerOutput) -> None:
    assert found.finite.tolist() == expected.finite.tolist()
    assert found.ids.tolist() == expected.ids.tolist()
    np.testing.assert_allclose(found.logprobs, expected.logprobs, rtol=1e-5, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: x.bfloat16().float(),
        torch.round,
        torch.zeros_like,
        # The two zeros are equal too.
        lambda x: torch.where(x > 0, -0.0, 0.0),
        lambda x: 1e36 * x,
    ],
    ids=["different", "bfloat16", "rounded", "equal", "two zeros", "large"],
)
def test_ids_of_the_reference(change: Callable[[Tensor], Tensor]) -> None:
    logits, rows = make_rows(1, 3, MANY)
    logits = change(logits)
    assert_same(TritonSampler()(logits.to(DEVICE), rows), TorchSampler()(logits, rows))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"top_k": 2**40, "top_p": 0.7},
        {"top_k": 1500, "top_p": 1.0},
        {"top_k": 3795, "top_p": 1.0},
        {"top_k": 2, "top_p": 0.0},
        {"top_k": 20, "top_p": 0.7, "repetition_penalty": 1e30},
    ],
    ids=str,
)
@pytest.mark.parametrize("spread", [0.01, 8.0])
def test_few_and_many_ids_are_kept(settings: dict[str, Any], spread: float) -> None:
    """Of nearly equal logits more ids are kept than bisection looks at together."""
    logits, rows = make_rows(2, 1, MANY, history=16)
    rows = [replace(row, sampling=replace(PLAIN, temperature=(1.0,), **settings)) for row in rows]
    logits *= spread
    assert_same(TritonSampler()(logits.to(DEVICE), rows), TorchSampler()(logits, rows))


def test_a_forbidden_end_that_was_nearly_certain() -> None:
    logits, rows = make_rows(3, 2, MANY)
    logits[..., 5] += 60
    sampling = replace(PLAIN, temperature=(1.0,), top_k=20, min_new=100)
    rows = [replace(row, end=5, sampling=sampling) for row in rows]
    found = TritonSampler()(logits.to(DEVICE), rows)
    assert not (found.ids == 5).any()
    assert_same(found, TorchSampler()(logits, rows))


def test_a_row_is_drawn_as_if_it_were_alone_and_a_bad_one_is_flagged() -> None:
    logits, rows = make_rows(4, 2, (2, MANY[1]))
    logits[0, 1, -1] = math.nan
    logits = logits.to(DEVICE)
    together = TritonSampler()(logits, rows)
    assert together.finite.tolist() == [False, True]
    assert together.ids.tolist() == TorchSampler()(logits, rows).ids.tolist()
    alone = TritonSampler()(logits[1:], rows[1:])
    assert alone.ids.tolist() == together.ids[1:].tolist()
    assert alone.logprobs.tolist() == together.logprobs[1:].tolist()
