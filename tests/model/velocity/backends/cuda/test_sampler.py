"""Draws from large vocabularies: the ids of the reference, and bits that no other row changes."""

from __future__ import annotations

# Before anything that imports Triton, whose own functions read its setting as they are declared.
from .....support.kernel_tools import DEVICE  # isort: skip

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ChatTTS.model.draws import random_bits
from ChatTTS.model.kernels.cuda.sampling import (
    DrawState,
    draw_codes_torch,
    pack_draws,
    random_bits_of,
)
from ChatTTS.model.sampling import Draw
from ChatTTS.model.velocity.backends.cuda import sampler
from ChatTTS.model.velocity.backends.cuda.sampler import TritonSampler
from ChatTTS.model.velocity.backends.torch.sampler import TorchSampler

from .....support.draw_cases import PLAIN, make_key, make_rows

TEXT = (1, 5001)


def make_state(rows: list[Draw]) -> DrawState:
    packed = pack_draws(rows, 1)
    return DrawState(**{name: torch.from_numpy(own).to(DEVICE) for name, own in packed.items()})


def draw(logits: Tensor, state: DrawState, end: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw; return ids, log-probabilities and the flags of finite rows, on the CPU."""
    rows = len(logits)
    ids = torch.full((rows, 1), -1, dtype=torch.int32, device=DEVICE)
    logprobs = torch.zeros(rows, 1, device=DEVICE)
    finite = torch.full((rows,), 7, dtype=torch.uint8, device=DEVICE)
    draw_codes_torch(logits.to(DEVICE), state, end, ids, logprobs, finite)
    return ids.cpu(), logprobs.cpu(), finite.cpu()


@pytest.mark.parametrize("seed", range(4))
def test_the_ids_of_the_reference(seed: int) -> None:
    logits, rows = make_rows(seed, 40, TEXT)
    ids, logprobs, finite = draw(logits, make_state(rows), rows[0].end)
    expected = TorchSampler()(logits, rows)
    assert ids.tolist() == expected.ids.tolist()
    np.testing.assert_allclose(logprobs[:, 0], expected.logprobs, rtol=0, atol=2e-5)
    assert finite.tolist() == [1] * 40


def test_the_sampler_takes_them_for_large_vocabularies(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows share one launch, and their results have the bits of rows alone."""
    calls: list[int] = []

    def counted(logits: Tensor, *rest: Any) -> None:
        calls.append(len(logits))
        draw_codes_torch(logits, *rest)

    monkeypatch.setattr(sampler, "draw_codes_torch", counted)
    logits, rows = make_rows(5, 12, (1, 8192))  # a size at which rows align as they do alone
    together = TritonSampler()(logits.to(DEVICE), rows)
    assert calls == [12]
    alone = [TritonSampler()(logits[i : i + 1].to(DEVICE), rows[i : i + 1]) for i in range(12)]
    assert together.ids.tolist() == [one.ids[0].tolist() for one in alone]
    assert together.logprobs.tolist() == [float(one.logprobs[0]) for one in alone]


class _Sums(TorchDispatchMode):
    """A mode that notes the dtypes that are summed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if any(name in str(func) for name in ("sum", "softmax", "mean")):
            self.seen.add(args[0].dtype)
        return func(*args, **(kwargs or {}))


def test_only_integers_are_summed() -> None:
    """A GPU adds floating-point numbers in an order that is not always the same."""
    logits, rows = make_rows(6, 3, TEXT)
    state = make_state(rows)
    with _Sums() as sums:
        draw(logits, state, rows[0].end)
    assert sums.seen == {torch.int64}


def test_random_bits_are_those_of_the_host() -> None:
    rng = np.random.default_rng(0)
    keys = [make_key(rng) for _ in range(50)]
    positions = [0, 2**31 - 1, *rng.integers(0, 4096, 48).tolist()]
    none = np.zeros((0, 1), dtype=np.int32)
    plain = replace(PLAIN, temperature=(1.0,))
    state = make_state([Draw(plain, k, at, none, 5) for k, at in zip(keys, positions, strict=True)])
    for num_codebooks in (1, 4, 6):
        found = random_bits_of(state.words, state.generated, num_codebooks).cpu().numpy()
        np.testing.assert_array_equal(found, random_bits(keys, positions, num_codebooks))


def test_the_window_holds_the_last_ids_and_a_bad_row_is_marked() -> None:
    sampling = replace(PLAIN, temperature=(0.8,), repetition_penalty=1.5)
    none = np.zeros((0, 1), np.int32)
    rows = [Draw(sampling, make_key(np.random.default_rng(i)), 0, none, 9) for i in range(3)]
    state = make_state(rows)
    logits, _ = make_rows(7, 2, TEXT)
    logits[1, 0, 3] = math.nan
    past: list[int] = []
    for _ in range(20):
        ids, _, finite = draw(logits, state, end=9)
        assert finite.tolist() == [1, 0]
        history = np.array(past[-16:], dtype=np.int32).reshape(-1, 1)
        expected = TorchSampler()(
            logits[:1], [replace(rows[0], position=len(past), window=history)]
        )
        assert ids[0].tolist() == expected.ids[0].tolist()
        assert 0 <= ids[1, 0] < TEXT[1]
        past.append(int(ids[0, 0]))
        state.generated.add_(1)
    newest = {number % 16: past[number] for number in range(20)}
    assert state.window[0, :, 0].tolist() == [newest[slot] for slot in range(16)]
    assert state.window[2].tolist() == [[-1]] * 16
