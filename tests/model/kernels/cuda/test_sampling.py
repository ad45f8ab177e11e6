"""The kernels and the state of the CUDA sampler.

The contract of all samplers is tested in ``velocity/backends/torch/test_sampler.py``.
"""

from __future__ import annotations

# Before anything that imports Triton, whose own functions read its setting as they are declared.
from ....support.kernel_tools import DEVICE  # isort: skip

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from inspect import getsource

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from ChatTTS.model.kernels.cuda.philox import uniform_bits
from ChatTTS.model.kernels.cuda.sampling import (
    SamplingState,
    pack_sampling,
    random_bits_of,
    sample_codes,
    sample_codes_torch,
)
from ChatTTS.model.random_numbers import DrawKey, Pass, random_bits
from ChatTTS.model.sampling import SamplingRow
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.velocity.backends.torch.sampler import TorchSampler

from ....support.sampling_cases import PLAIN, ZERO_SEED, make_key, make_rows

CODE = (4, 626)


@pytest.fixture(autouse=True)
def _quiet_interpreter() -> Iterator[None]:
    """Silence NumPy, on which the interpreter computes: it warns of every overflow and NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def make_state(rows: list[SamplingRow], num_codebooks: int = 4) -> SamplingState:
    packed = pack_sampling(rows, num_codebooks)
    state = SamplingState.zeros(len(rows), num_codebooks, DEVICE)
    assert set(packed) == {field.name for field in fields(SamplingState)}
    for name, values in packed.items():
        place: Tensor = getattr(state, name)
        assert place.shape == values.shape
        place.copy_(torch.from_numpy(values))
    return state


def draw(logits: Tensor, state: SamplingState, end: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw; return ids, log-probabilities and the flags of finite rows, on the CPU."""
    rows, num_codebooks, _ = logits.shape
    ids = torch.full((rows, num_codebooks), -7, dtype=torch.int32, device=DEVICE)
    logprobs = torch.full((rows, num_codebooks), math.nan, device=DEVICE)
    finite = torch.full((rows,), 7, dtype=torch.uint8, device=DEVICE)
    sample_codes(logits.to(DEVICE), state, end, ids, logprobs, finite)
    return ids.cpu(), logprobs.cpu(), finite.cpu()


@triton.jit
def _draw_bits(
    words: tl.tensor, positions: tl.tensor, out: tl.tensor, num_codebooks: tl.constexpr
) -> None:
    row = tl.program_id(0)
    codebook = tl.program_id(1)
    key = words + row * 5
    bits = uniform_bits(
        tl.load(positions + row),
        tl.load(key + 2),
        tl.load(key + 3),
        tl.load(key + 4),
        tl.load(key),
        tl.load(key + 1),
        codebook,
    )
    tl.store(out + row * num_codebooks + codebook, bits)


@pytest.mark.slow
def test_random_numbers_are_the_hosts_bit_for_bit() -> None:
    rng = np.random.default_rng(0)
    none = np.zeros((0, 6), dtype=np.int32)
    extremes = [
        DrawKey(ZERO_SEED, Pass.CODE),
        DrawKey(-1, Pass.REFINE, 2**32 - 1, 2**16 - 1, 2**16 - 1),
        DrawKey(2**63, Pass.CODE, 2**31),
    ]
    keys = extremes + [make_key(rng) for _ in range(14)]
    positions = [0, 2**31 - 1, 1, *rng.integers(0, 4096, 14).tolist()]
    rows = [SamplingRow(PLAIN, key, at, none, 5) for key, at in zip(keys, positions, strict=True)]
    state = make_state(rows)
    found = torch.empty(len(rows), 6, dtype=torch.int64, device=DEVICE)
    _draw_bits[(len(rows), 6)](state.words, state.generated, found, 6)
    expected = random_bits(keys, positions, 6)
    assert expected[0, 3] == 0
    np.testing.assert_array_equal(found.cpu().numpy(), expected)
    for count in (1, 4, 6):
        plain = random_bits_of(state.words, state.generated, count)
        np.testing.assert_array_equal(plain.cpu().numpy(), random_bits(keys, positions, count))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "form"), [(6, CODE), (2, (2, 1100))])
def test_the_twin_does_all_that_the_kernel_does(count: int, form: tuple[int, int]) -> None:
    logits, rows = make_rows(31, count, form)
    logits = logits.to(DEVICE)
    logits[count // 3, 1, 7] = math.nan
    found, expected = make_state(rows, form[0]), make_state(rows, form[0])
    outputs = draw(logits, found, rows[0].end)
    given = [torch.empty_like(output, device=DEVICE) for output in outputs]
    sample_codes_torch(logits, expected, rows[0].end, *given)
    ids, logprobs, finite = (output.cpu() for output in given)
    assert outputs[0].equal(ids)
    assert outputs[2].equal(finite)
    torch.testing.assert_close(outputs[1][finite.bool()], logprobs[finite.bool()])
    for field in fields(SamplingState):
        assert getattr(found, field.name).equal(getattr(expected, field.name)), field.name


@pytest.mark.slow
@pytest.mark.parametrize("form", [CODE, (2, 1100)])  # one kernel each
@pytest.mark.parametrize("way", [sample_codes, sample_codes_torch])
def test_a_row_draws_with_the_state_at_its_slot(
    way: Callable[..., None], form: tuple[int, int]
) -> None:
    logits, rows = make_rows(8, 3, form)
    in_order = make_state(rows, form[0])
    expected = draw(logits, in_order, rows[0].end)
    slots = torch.tensor([4, 0, 2], dtype=torch.int32, device=DEVICE)

    def spread(values: Tensor, rest: int) -> Tensor:
        whole = torch.full((5, *values.shape[1:]), rest, dtype=values.dtype, device=DEVICE)
        return whole.index_copy_(0, slots.long(), values.to(DEVICE))

    before = make_state(rows, form[0])
    state = SamplingState(*(spread(getattr(before, field.name), 3) for field in fields(before)))
    outputs = [spread(torch.zeros_like(each), 7) for each in expected]
    way(logits.to(DEVICE), state, rows[0].end, *outputs, slots)
    for found, own in zip(outputs, expected, strict=True):
        torch.testing.assert_close(found, spread(own, 7))
    for field in fields(SamplingState):
        assert getattr(state, field.name).equal(spread(getattr(in_order, field.name), 3))


@pytest.mark.slow
@pytest.mark.parametrize("size", [626, 1100])  # one kernel each
def test_an_id_goes_into_the_window_and_nothing_else_changes(size: int) -> None:
    """Twenty steps on the device draw the ids of twenty calls of the reference."""
    sampling = SamplingParams((0.7, 0.0), 0.9, 20, 1.4, 4, 100)
    key = make_key(np.random.default_rng(9))
    row = SamplingRow(sampling, key, 0, np.zeros((0, 2), np.int32), 5)
    state = make_state([row], 2)
    before = {field.name: getattr(state, field.name).clone() for field in fields(state)}
    logits, _ = make_rows(9, 1, (2, size))
    logits[..., :12] += 4
    past = np.zeros((0, 2), dtype=np.int32)
    for step in range(20):
        ids, _, _ = draw(logits, state, end=5)
        expected = TorchSampler()(logits, [replace(row, position=step, window=past[-16:])])
        assert ids.tolist() == expected.ids.tolist()
        past = np.concatenate([past, ids.numpy()])
        state.generated.add_(1)
    newest = {number % 16: past[number].tolist() for number in range(20)}
    assert state.window[0].tolist() == [newest[slot] for slot in range(16)]
    assert state.generated.tolist() == [20]
    # A sequence that returns after a preemption is packed into its earlier places.
    packed = pack_sampling([replace(row, position=20, window=past[-16:])], 2)
    assert packed["window"].tolist() == state.window.tolist()
    unchanged = set(before) - {"window", "generated"}
    assert all(getattr(state, name).equal(before[name]) for name in unchanged)


def test_more_rows_of_state_than_of_logits() -> None:
    logits, rows = make_rows(10, 3, CODE)
    state = make_state(rows)
    ids, _, _ = draw(logits[:1], state, rows[0].end)
    assert ids.tolist() == TorchSampler()(logits[:1], rows[:1]).ids.tolist()
    packed = torch.from_numpy(pack_sampling(rows, 4)["window"])
    assert state.window[1:].cpu().equal(packed[1:])


def test_rows_of_no_sequence_draw_something() -> None:
    state = SamplingState.zeros(2, 4, DEVICE)
    logits, _ = make_rows(11, 2, CODE)
    ids, _, finite = draw(logits, state, end=5)
    assert ids.tolist() == logits.argmax(dim=-1).tolist()
    assert finite.tolist() == [1, 1]


@pytest.mark.parametrize("draw", [sample_codes, sample_codes_torch])
def test_each_draw_reads_every_setting(draw: Callable[..., object]) -> None:
    """A new sampling rule has a place in the refine pass on a GPU as well."""
    source = getsource(draw)
    names = [field.name for field in fields(SamplingState)]
    assert [name for name in names if f"state.{name}" not in source] == []
