"""Draws on the device: their numbers are the CPU's, and their ids are the reference's."""

from __future__ import annotations

# Before anything that imports Triton, whose own functions read its setting as they are declared.
from ...support.kernel_tools import DEVICE  # isort: skip

import math
import warnings
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from ChatTTS.model.cuda.kernels.philox import uniform_bits
from ChatTTS.model.cuda.kernels.sampling import (
    DrawState,
    draw_codes,
    draw_codes_torch,
    pack_draws,
)
from ChatTTS.model.draws import DrawKey, Pass, uniforms
from ChatTTS.model.generation import Sampling
from ChatTTS.model.sampling import Draw
from ChatTTS.model.velocity.sampler import TorchSampler

LANES, SIZE = 4, 626
TEMPERATURES = (0.0, 1e-12, 0.3, 0.7, 1.0, 5.0)
TOP_PS = (1e-6, 0.1, 0.5, 0.7, 0.95, 1.0)
TOP_KS = (1, 2, 3, 4, 20, 10_000)
PENALTIES = (0.5, 1.0, 1.05, 2.0, 1e30)
PLAIN = Sampling((1.0,) * LANES, 1.0, 10_000, 1.0, 0, 100)
# The interpreter takes long over a row, a GPU does not.
MANY = 1 if DEVICE.type == "cpu" else 32
# The third codebook's number is 0 exactly: the least probable id must not come of it.
ZERO_SEED = 1_343_428


@pytest.fixture(autouse=True)
def _quiet_interpreter() -> Iterator[None]:
    """NumPy, on which the interpreter computes, tells of every overflow and NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def make_rows(seed: int, count: int, num_codebooks: int = LANES) -> list[Draw]:
    """Rows, each with settings and a history of its own; few ids, so that they come again."""
    rng = np.random.default_rng(seed)
    rows = []
    for row in range(count):
        position = int(rng.integers(0, 60))
        window = rng.integers(0, 12, (min(position, 16), num_codebooks + 1), dtype=np.int32)
        hot = (
            rng.choice(TEMPERATURES, num_codebooks)
            if row % 2
            else [rng.choice(TEMPERATURES)] * num_codebooks
        )
        sampling = Sampling(
            temperature=tuple(float(value) for value in hot),
            top_p=float(rng.choice(TOP_PS)),
            top_k=int(rng.choice(TOP_KS)),
            repetition_penalty=float(rng.choice(PENALTIES)),
            min_new=int(rng.integers(0, 60)),
            max_new=100,
        )
        rows.append(Draw(sampling, make_key(rng), position, window, end=5))
    return rows


def make_key(rng: np.random.Generator) -> DrawKey:
    return DrawKey(
        seed=int(rng.integers(-(2**62), 2**62)),
        kind=Pass(int(rng.integers(0, 2))),
        utterance=int(rng.integers(0, 2**32)),
        sample=int(rng.integers(0, 2**16)),
        attempt=int(rng.integers(0, 2**16)),
    )


def make_logits(seed: int, count: int, num_codebooks: int = LANES, size: int = SIZE) -> Tensor:
    """Some rows flat, some steep; ids 0 to 11, of which histories consist, are probable."""
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.3, 2.0, 8.0], (count, 1, 1))
    logits = (rng.standard_normal((count, num_codebooks, size)) * spread).astype(np.float32)
    logits[..., :12] += 2 * spread.astype(np.float32)
    return torch.from_numpy(logits)


def make_state(rows: list[Draw], num_codebooks: int = LANES) -> DrawState:
    packed = pack_draws(rows, num_codebooks)
    state = DrawState.zeros(len(rows), num_codebooks, DEVICE)
    assert set(packed) == {field.name for field in fields(DrawState)}
    for name, values in packed.items():
        place: Tensor = getattr(state, name)
        assert place.shape == values.shape
        place.copy_(torch.from_numpy(values))
    return state


def draw(logits: Tensor, state: DrawState, end: int) -> tuple[Tensor, Tensor, Tensor]:
    """Ids, log-probabilities and what is finite, on the CPU."""
    rows, num_codebooks, _ = logits.shape
    ids = torch.full((rows, num_codebooks), -7, dtype=torch.int32, device=DEVICE)
    logprobs = torch.full((rows, num_codebooks), math.nan, device=DEVICE)
    finite = torch.full((rows,), 7, dtype=torch.uint8, device=DEVICE)
    draw_codes(logits.to(DEVICE), state, end, ids, logprobs, finite)
    return ids.cpu(), logprobs.cpu(), finite.cpu()


def assert_like_the_reference(logits: Tensor, rows: list[Draw]) -> Tensor:
    """The ids, once they are found to be right."""
    ids, logprobs, finite = draw(logits, make_state(rows, logits.shape[1]), rows[0].end)
    expected = TorchSampler()(logits, rows)
    assert finite.tolist() == expected.finite.tolist()
    np.testing.assert_array_equal(ids.numpy(), expected.ids)
    sound = expected.finite
    np.testing.assert_allclose(
        logprobs.mean(dim=1).numpy()[sound], expected.logprobs[sound], rtol=1e-5, atol=1e-4
    )
    return ids


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
    rows = [Draw(PLAIN, key, at, none, 5) for key, at in zip(keys, positions, strict=True)]
    state = make_state(rows)
    found = torch.empty(len(rows), 6, dtype=torch.int64, device=DEVICE)
    _draw_bits[(len(rows), 6)](state.words, state.generated, found, 6)
    expected = uniforms(keys, positions, 6)
    assert expected[0, 3] == 0
    np.testing.assert_array_equal(found.cpu().numpy() * 2.0**-24, expected)


@pytest.mark.parametrize(("count", "num_codebooks"), [(1, 4), (2, 4), (17, 2)])
def test_ids_are_the_references(count: int, num_codebooks: int) -> None:
    for seed in range(MANY):
        assert_like_the_reference(
            make_logits(seed, count, num_codebooks), make_rows(seed, count, num_codebooks)
        )


@pytest.mark.parametrize(("num_codebooks", "size"), [(1, 626), (5, 7), (2, 3), (1, 512), (1, 3000)])
def test_other_shapes(num_codebooks: int, size: int) -> None:
    for seed in range(MANY):
        rows = [replace(row, end=2) for row in make_rows(seed, 4, num_codebooks)]
        rows = [replace(row, window=row.window % size) for row in rows]
        logits = torch.from_numpy(
            np.random.default_rng(seed).standard_normal((4, num_codebooks, size)).astype(np.float32)
            * 3
        )
        assert_like_the_reference(logits, rows)


def test_of_equal_ids_the_later_is_kept() -> None:
    count = 4 * MANY
    rows = make_rows(3, count)
    assert_like_the_reference(make_logits(3, count).round(), rows)
    # The two zeros are equal too.
    signs = torch.where(torch.arange(SIZE) % 3 == 0, -0.0, 0.0).expand(count, LANES, SIZE)
    rows = [replace(row, sampling=replace(row.sampling, top_p=0.703)) for row in rows]
    assert_like_the_reference(signs.contiguous(), rows)


@pytest.mark.parametrize(
    "extreme",
    [
        {"temperature": (0.0,) * LANES, "top_k": 1},
        {"temperature": (1e-20,) * LANES},
        {"temperature": (1e-12, 0.0, 1.0, 1e30)},
        {"top_p": 1e-6},
        {"top_p": 1 - 2**-24},
        {"top_k": 1},
        {"top_k": 2**40},
        {"repetition_penalty": 1e30},
        {"repetition_penalty": 1e-30},
    ],
    ids=str,
)
def test_extreme_settings(extreme: dict[str, Any]) -> None:
    rows = [
        replace(row, sampling=replace(PLAIN, min_new=row.sampling.min_new, **extreme))
        for row in make_rows(4, MANY)
    ]
    assert_like_the_reference(make_logits(4, MANY), rows)


def test_logits_near_the_end_of_float32() -> None:
    """A low temperature drives many of them over it, and there they are equal."""
    rows = make_rows(5, 2 * MANY)
    for scale in (1e19, 1e36):
        assert_like_the_reference(make_logits(5, 2 * MANY) * scale, rows)


def test_logits_below_zero() -> None:
    """Their bits are in the opposite order."""
    rows = [replace(row, sampling=replace(PLAIN, top_k=4)) for row in make_rows(12, MANY)]
    assert_like_the_reference(make_logits(12, MANY) - 100, rows)


def test_a_forbidden_end_that_was_nearly_certain() -> None:
    """What is left beside it was next to nothing, and is drawn from as if the end had never been
    there."""
    logits = make_logits(6, 2 * MANY)
    logits[..., 5] += 60
    rows = make_rows(6, 2 * MANY)
    for top_p, top_k in ((1.0, 10_000), (1.0, 20), (0.7, 20)):
        sampling = replace(PLAIN, top_p=top_p, top_k=top_k, min_new=100)
        forbidden = [replace(row, sampling=sampling) for row in rows]
        ids = assert_like_the_reference(logits, forbidden)
        assert not (ids == 5).any()


@pytest.mark.parametrize("temperature", [1e-12, 0.01, 1.0])
def test_the_number_zero_takes_no_impossible_id(temperature: float) -> None:
    logits = torch.linspace(0, 300, SIZE).repeat(1, LANES, 1)
    sampling = replace(PLAIN, temperature=(temperature,) * LANES)
    row = Draw(sampling, DrawKey(ZERO_SEED, Pass.CODE), 0, np.zeros((0, 4), dtype=np.int32), 625)
    ids, _, _ = draw(logits, make_state([row]), end=625)
    # What single precision can tell from nothing lies within e^-104.
    assert ids[0, 3] >= 625 - 104 * temperature / (300 / 625) - 1


@pytest.mark.parametrize("damage", [math.nan, math.inf, -math.inf])
def test_a_row_that_is_not_finite_is_flagged_alone(damage: float) -> None:
    logits, rows = make_logits(7, 3, 2), make_rows(7, 3, 2)
    logits[1, 1, 17] = damage
    logits[2, 0, 625] = damage
    assert draw(logits, make_state(rows, 2), end=5)[2].tolist() == [1, 0, 0]
    assert_like_the_reference(logits, rows)


def test_a_row_is_drawn_as_if_it_were_alone() -> None:
    count = 3 * MANY
    logits, rows = make_logits(8, count), make_rows(8, count)
    whole = draw(logits, make_state(rows), end=5)
    for row in range(0, count, 2):
        alone = draw(logits[row : row + 1], make_state(rows[row : row + 1]), end=5)
        for one, all_of_them in zip(alone, whole, strict=True):
            assert one[0].equal(all_of_them[row])


def test_the_twin_does_all_that_the_kernel_does() -> None:
    rows = make_rows(31, 6)
    logits = make_logits(31, len(rows)).to(DEVICE)
    logits[2, 1, 7] = math.nan
    found, expected = make_state(rows), make_state(rows)
    outputs = draw(logits, found, end=5)
    given = [torch.empty_like(output, device=DEVICE) for output in outputs]
    draw_codes_torch(logits, expected, 5, *given)
    ids, logprobs, finite = (output.cpu() for output in given)
    assert outputs[0].equal(ids)
    assert outputs[2].equal(finite)
    torch.testing.assert_close(outputs[1][finite.bool()], logprobs[finite.bool()])
    for field in fields(DrawState):
        assert getattr(found, field.name).equal(getattr(expected, field.name)), field.name


def test_an_id_goes_into_the_window_and_nothing_else_changes() -> None:
    """Twenty steps on the device draw what twenty calls of the reference do."""
    sampling = Sampling((0.7, 0.0), 0.9, 20, 1.4, 4, 100)
    row = Draw(sampling, make_key(np.random.default_rng(9)), 0, np.zeros((0, 2), np.int32), 5)
    state = make_state([row], 2)
    before = {field.name: getattr(state, field.name).clone() for field in fields(state)}
    logits = make_logits(9, 1, 2)
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
    # Whoever comes back after a preemption is packed into the same places.
    packed = pack_draws([replace(row, position=20, window=past[-16:])], 2)
    assert packed["window"].tolist() == state.window.tolist()
    unchanged = set(before) - {"window", "generated"}
    assert all(getattr(state, name).equal(before[name]) for name in unchanged)


def test_more_rows_of_state_than_of_logits() -> None:
    logits, rows = make_logits(10, 3), make_rows(10, 3)
    state = make_state(rows)
    ids, _, _ = draw(logits[:1], state, end=5)
    assert ids.tolist() == TorchSampler()(logits[:1], rows[:1]).ids.tolist()
    packed = torch.from_numpy(pack_draws(rows, LANES)["window"])
    assert state.window[1:].cpu().equal(packed[1:])


def test_rows_of_no_sequence_draw_something() -> None:
    state = DrawState.zeros(2, LANES, DEVICE)
    logits = make_logits(11, 2)
    ids, _, finite = draw(logits, state, end=5)
    assert ids.tolist() == logits.argmax(dim=-1).tolist()
    assert finite.tolist() == [1, 1]
