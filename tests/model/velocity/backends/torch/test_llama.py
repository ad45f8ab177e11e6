"""The engine's Llamas against a slow one in double precision.

No bit of a sequence depends on how its prompt was cut or on the sequences that run beside it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from ChatTTS.model.kernels.cpu.library import ALIGNMENT
from ChatTTS.model.llama.config import LlamaShape
from ChatTTS.model.llama.rotary import rotary_tables
from ChatTTS.model.llama.transformers_import import importing_transformers
from ChatTTS.model.velocity.backends.torch.linear import WholeMatrix
from ChatTTS.model.velocity.input_batch import InputBatch
from ChatTTS.model.velocity.loaded_model import LlamaModel

from .....support.velocity_models import (
    CPU,
    Inputs,
    LlamaDriver,
    make_embed,
    make_inputs,
    make_shape,
    make_tensors,
    native_llama,
    recompute,
    save_llama,
    torch_llama,
)
from .....support.watchdog_tools import run_watched

LINEAR = {"rope_type": "linear", "factor": 2.5}
# Hidden states are about 1; single precision errs by some 1e-6 of that, and bfloat16, which keeps
# 8 bits of every weight and intermediate, by some hundredths.
SINGLE = 3e-5
# Of the root mean square; in eight bits also keys and values are rounded.
HALF = 0.03
EIGHT_BITS = 0.04

SHAPES = {
    "heads of 16": make_shape(64, 4, 4, 16),
    "heads of 24, two groups": make_shape(96, 4, 2, 24),
    "heads of 64, one of keys": make_shape(80, 3, 1, 64, inner=130),
    "odd sizes": make_shape(33, 3, 3, 10, inner=71, rms_norm_eps=1e-4),
    "another base": make_shape(48, 2, 2, 24, rope_theta=500.0),
    "one layer, wide heads": make_shape(40, 2, 1, 264, layers=1),
}
MAKERS: dict[str, Callable[..., LlamaModel]] = {"native": native_llama, "torch": torch_llama}


def error_of(found: Tensor, expected: Tensor) -> float:
    """The root mean square of the difference, relative to that of the expected values."""
    return float((found.double() - expected).norm() / expected.norm())


def expected_of(driver: LlamaDriver, shape: LlamaShape, rope: float = 1) -> list[Tensor]:
    embed, tensors = make_embed(shape.hidden_size), make_tensors(shape)
    return [recompute(tensors, shape, s.embedded(embed), rope) for s in driver.sequences]


def mixed_steps(driver: LlamaDriver) -> list[Tensor]:
    """Steps that mix pieces of prompts and single rows, while sequences come and go."""
    a, b, c = range(3)
    driver.step([(a, 5)])
    driver.step([(a, 1), (b, 11)])
    driver.step([(c, 2), (b, 1), (a, 1)])
    driver.step([(a, 40), (c, 1)])
    driver.step([(b, 1)])
    driver.step([(c, 60), (b, 30), (a, 60)])
    return driver.results()


def three_sequences(hidden: int) -> list[Inputs]:
    return [make_inputs(length, hidden, seed=length) for length in (70, 40, 37)]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("block_size", [3, 32])
def test_as_recomputed_in_double(
    tmp_path: Path, name: str, shape: LlamaShape, block_size: int
) -> None:
    """Text, codes and speaker vectors; chunks and single rows; scrambled blocks."""
    llama = MAKERS[name](save_llama(tmp_path, shape), make_embed(shape.hidden_size), block_size)
    driver = LlamaDriver(llama, block_size, three_sequences(shape.hidden_size))
    for found, expected in zip(mixed_steps(driver), expected_of(driver, shape), strict=True):
        assert found.dtype is torch.float32
        assert len(found) == len(expected) or len(found) < 70
        assert (found - expected[: len(found)]).abs().max() < SINGLE


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("block_size", [1, 3, 8, 16, 20, 32, 64])
def test_every_block_size(tmp_path: Path, name: str, block_size: int) -> None:
    shape = SHAPES["heads of 24, two groups"]
    llama = MAKERS[name](save_llama(tmp_path, shape), make_embed(shape.hidden_size), block_size)
    driver = LlamaDriver(llama, block_size, [make_inputs(150, shape.hidden_size, 5)])
    (found,), (expected,) = driver.run(37), expected_of(driver, shape)
    assert (found - expected).abs().max() < SINGLE


@pytest.mark.parametrize("name", MAKERS)
def test_a_stretched_rotary_embedding(tmp_path: Path, name: str) -> None:
    shape = make_shape(64, 4, 4, 16, rope_scaling=LINEAR)
    llama = MAKERS[name](save_llama(tmp_path, shape), make_embed(64), 16)
    driver = LlamaDriver(llama, 16, [make_inputs(100, 64, 5)])
    (found,) = driver.run(33)
    assert (found - expected_of(driver, shape, rope=2.5)[0]).abs().max() < SINGLE
    assert (found - expected_of(driver, shape)[0]).abs().max() > 0.01


def test_rotary_tables_are_those_of_transformers() -> None:
    with importing_transformers():
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    from ChatTTS.model.llama.config import llama_config

    shape = make_shape(head_dim=24, rope_theta=777.0)
    positions = torch.arange(shape.max_position_embeddings)[None]
    expected = LlamaRotaryEmbedding(config=llama_config(shape))(torch.zeros(1), positions)
    for found, table in zip(rotary_tables(shape), expected, strict=True):
        assert found.equal(table[0])


@pytest.mark.parametrize("kind", ["bfloat16", "int8"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_narrow_weights_on_the_kernels(tmp_path: Path, kind: str, shape: LlamaShape) -> None:
    embed = make_embed(shape.hidden_size, torch.bfloat16)
    llama = native_llama(save_llama(tmp_path, shape), embed, 16, kind)
    driver = LlamaDriver(llama, 16, three_sequences(shape.hidden_size))
    bound = EIGHT_BITS if kind == "int8" else HALF
    for found, expected in zip(mixed_steps(driver), expected_of(driver, shape), strict=True):
        assert error_of(found, expected[: len(found)]) < bound


def test_eight_bits_beside_wide_embeddings(tmp_path: Path) -> None:
    shape = SHAPES["heads of 16"]
    llama = native_llama(save_llama(tmp_path, shape), make_embed(64), 16, "int8")
    driver = LlamaDriver(llama, 16, three_sequences(64))
    for found, expected in zip(mixed_steps(driver), expected_of(driver, shape), strict=True):
        assert 1e-4 < error_of(found, expected[: len(found)]) < EIGHT_BITS


def test_keys_and_values_in_eight_bits_take_half_of_sixteen(tmp_path: Path) -> None:
    shape = SHAPES["heads of 16"]
    file, embed = save_llama(tmp_path, shape), make_embed(64, torch.bfloat16)
    narrow, wide = (native_llama(file, embed, 16, kind) for kind in ("int8", "bfloat16"))
    numbers = wide.block_bytes // 2
    scales = numbers // 16 * 4  # a float for the 16 numbers of a key or value
    assert narrow.block_bytes == -(-(numbers + scales) // ALIGNMENT) * ALIGNMENT


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_bfloat16_on_torch(tmp_path: Path, shape: LlamaShape) -> None:
    embed = make_embed(shape.hidden_size, torch.bfloat16)
    llama = torch_llama(save_llama(tmp_path, shape), embed, 16, torch.bfloat16)
    driver = LlamaDriver(llama, 16, three_sequences(shape.hidden_size))
    for found, expected in zip(mixed_steps(driver), expected_of(driver, shape), strict=True):
        assert error_of(found, expected[: len(found)]) < HALF


def test_products_without_tiles(tmp_path: Path) -> None:
    shape = SHAPES["heads of 16"]
    llama = torch_llama(save_llama(tmp_path, shape), make_embed(64), 16, matrices=WholeMatrix)
    driver = LlamaDriver(llama, 16, three_sequences(64))
    for found, expected in zip(mixed_steps(driver), expected_of(driver, shape), strict=True):
        assert (found - expected[: len(found)]).abs().max() < SINGLE


# ---------------------------------------------------------------- bits


# Kinds of weights and of embeddings, as ModelLoader pairs them.
PRECISIONS = {
    "native float32": ("float32", torch.float32),
    "native bfloat16": ("bfloat16", torch.bfloat16),
    "native int8": ("int8", torch.float32),
    "torch float32": (None, torch.float32),
    "torch bfloat16": (None, torch.bfloat16),
}


@pytest.fixture(params=PRECISIONS)
def make_llama(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[LlamaShape, int, int], LlamaModel]:
    kind, dtype = PRECISIONS[request.param]

    def make(shape: LlamaShape, block_size: int = 16, threads: int = 2) -> LlamaModel:
        file, embed = save_llama(tmp_path, shape), make_embed(shape.hidden_size, dtype)
        if kind is None:
            return torch_llama(file, embed, block_size, dtype)
        return native_llama(file, embed, block_size, kind, threads)

    return make


BIT_SHAPES = [SHAPES["heads of 24, two groups"], SHAPES["heads of 64, one of keys"]]


@pytest.mark.parametrize("shape", BIT_SHAPES, ids=["24", "64"])
@pytest.mark.slow_for("torch *-*")
def test_cuts_and_neighbours_change_no_bit(
    make_llama: Callable[..., LlamaModel], shape: LlamaShape
) -> None:
    llama = make_llama(shape)
    alone = make_inputs(61, shape.hidden_size, 1)
    (expected,) = LlamaDriver(llama, 16, [alone]).run(61)
    assert expected.isfinite().all()
    for chunk in (1, 2, 7, 16, 17):
        (found,) = LlamaDriver(llama, 16, [alone], seed=chunk).run(chunk)
        assert found.equal(expected), chunk
    others = [make_inputs(length, shape.hidden_size, length) for length in (3, 100, 40)]
    for place in (0, 2, 3):
        together = LlamaDriver(llama, 16, [*others[:place], alone, *others[place:]], seed=place)
        assert together.run(9)[place].equal(expected), place
    # Each time in another row of a tile, beside a neighbour in chunks of another size.
    driver = LlamaDriver(llama, 16, [alone, others[1]], seed=9)
    for step in range(20):
        driver.step([(1, step % 5), (0, 3)] if step % 5 else [(0, 3)])
    driver.step([(0, 1)])
    assert driver.results()[0].equal(expected)


def test_block_sizes_and_threads_change_no_bit(make_llama: Callable[..., LlamaModel]) -> None:
    shape = BIT_SHAPES[0]
    inputs = [make_inputs(length, shape.hidden_size, length) for length in (70, 20)]
    expected = LlamaDriver(make_llama(shape, 16, 1), 16, inputs).run(13)
    for block_size, threads in ((1, 1), (3, 2), (8, 3), (32, 1), (64, 2)):
        llama = make_llama(shape, block_size, threads)
        found = LlamaDriver(llama, block_size, inputs).run(13)
        assert all(a.equal(b) for a, b in zip(found, expected, strict=True)), block_size


@pytest.mark.parametrize("name", MAKERS)
def test_an_input_that_is_no_number_stays_in_its_sequence(tmp_path: Path, name: str) -> None:
    shape = SHAPES["heads of 16"]
    llama = MAKERS[name](save_llama(tmp_path, shape), make_embed(64), 8)
    inputs = three_sequences(64)
    expected = LlamaDriver(llama, 8, inputs).run(9)
    inputs[1].speaker[5] = math.nan
    found = LlamaDriver(llama, 8, inputs).run(9)
    assert found[0].equal(expected[0])
    assert found[2].equal(expected[2])
    assert not found[1][-1].isfinite().any()


@pytest.mark.parametrize("name", MAKERS)
def test_steps_that_draw_nothing_or_little(tmp_path: Path, name: str) -> None:
    """Only the rows that draw come back."""
    shape = SHAPES["heads of 16"]
    llama = MAKERS[name](save_llama(tmp_path, shape), make_embed(64), 8)
    driver = LlamaDriver(llama, 8, three_sequences(64))
    forward = llama.forward
    drawn: list[bool] = []

    def fewer(batch: InputBatch, pool: Tensor) -> Tensor:
        whole = forward(batch, pool)
        for rows in ([], [3], [len(batch) - 1, 0]):
            wanted = replace(batch, draws=batch.draws[rows].copy())
            drawn.append(forward(wanted, pool).equal(whole[rows]))
        return whole

    cast(Any, llama).forward = fewer
    driver.step([(0, 9), (1, 5)])
    assert drawn == [True] * 3


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
def test_the_size_of_a_block(tmp_path: Path, kind: str) -> None:
    shape = SHAPES["heads of 24, two groups"]
    file = save_llama(tmp_path, shape)
    dtype = getattr(torch, kind)
    embed = make_embed(shape.hidden_size, dtype)
    numbers = shape.num_hidden_layers * 2 * shape.num_key_value_heads * 32 * shape.head_dim
    plain = torch_llama(file, embed, 32, dtype)
    assert plain.block_bytes == numbers * dtype.itemsize
    for llama in (plain, native_llama(file, embed, 32, kind)):
        pool = llama.new_pool(5)
        assert pool.device == CPU
        assert len(pool) == 5
        assert pool[0].nbytes == llama.block_bytes
        # The kernels round a head up to whole vectors, of 16 numbers at most.
        assert plain.block_bytes <= llama.block_bytes <= plain.block_bytes * 32 / 24


def test_a_llama_needs_no_file_once_it_is_loaded(tmp_path: Path) -> None:
    shape = SHAPES["heads of 16"]
    llamas = [make(save_llama(tmp_path, shape), make_embed(64), 8) for make in MAKERS.values()]
    (tmp_path / "model.safetensors").write_bytes(b"")
    for llama in llamas:
        driver = LlamaDriver(llama, 8, [make_inputs(30, 64, 5)])
        assert (driver.run(30)[0] - expected_of(driver, shape)[0]).abs().max() < SINGLE


def test_other_defaults_of_torch_change_nothing(tmp_path: Path) -> None:
    shape = make_shape()
    llama = native_llama(save_llama(tmp_path, shape), make_embed(shape.hidden_size), 4)
    driver = LlamaDriver(llama, 4, [make_inputs(9, shape.hidden_size, 1)])
    expected = driver.run(9)
    driver.hiddens = [[]]
    torch.set_default_dtype(torch.float64)
    try:
        (found,) = driver.run(9)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype is torch.float32
    assert found.equal(expected[0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.slow
def test_a_forked_child_does_not_write_into_the_parents_blocks(tmp_path: Path) -> None:
    # In a process of its own: a child of this process would inherit what other tests left.
    run_watched(
        """
import os, sys
from pathlib import Path
from tests.model.velocity.backends.torch.test_llama import *
shape = make_shape()
llama = native_llama(save_llama(Path(sys.argv[1]), shape), make_embed(shape.hidden_size), 4)
pool = llama.new_pool(2).zero_()
child = os.fork()
if child == 0:
    pool.numpy()[:] = 1  # without torch: its threads may be missing in the child
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert not pool.any()
""",
        str(tmp_path),
    )
