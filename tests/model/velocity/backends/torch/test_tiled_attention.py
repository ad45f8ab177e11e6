"""Attention of all rows at once, against the attention that takes one row after another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.model.llama.config import LlamaShape
from ChatTTS.model.velocity.backends.torch import tiled_attention
from ChatTTS.model.velocity.backends.torch.attention import Attention, TorchAttention
from ChatTTS.model.velocity.backends.torch.row_checks import attention_agrees
from ChatTTS.model.velocity.backends.torch.tiled_attention import TILE, TiledAttention
from ChatTTS.model.velocity.input_batch import AttentionProbe, HeadSet, InputBatch

from .....support.velocity_models import make_shape

SHAPES = {
    "heads of 16": make_shape(64, 4, 4, 16),
    "two groups": make_shape(96, 4, 2, 24),
    "one of keys": make_shape(80, 3, 1, 64),
}
LENGTHS = [1, 300, TILE - 1, TILE, 40, TILE + 1, 2 * TILE + 1]
LAYER = 1


class Filled:
    """Sequences whose keys and values are in scrambled blocks, over memory full of NaN."""

    def __init__(
        self,
        attention: Attention,
        shape: LlamaShape,
        block_size: int,
        lengths: Sequence[int],
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.attention, self.shape = attention, shape
        counts = [-(-length // block_size) for length in lengths]
        order = np.random.default_rng(0).permutation(sum(counts) + 2).astype(np.int32)
        self.tables = np.zeros((len(lengths), max(counts)), dtype=np.int32)
        for table, own in zip(self.tables, np.split(order, np.cumsum(counts)), strict=False):
            table[: len(own)] = own
        self.pool = torch.empty(len(order), *shape.block_shape(block_size), dtype=dtype)
        self.pool.view(torch.uint8).fill_(0xFF)
        for number, length in enumerate(lengths):
            self.attend([number] * (length - 1), list(range(length - 1)))

    def attend(
        self,
        sequences: Sequence[int],
        positions: Sequence[int],
        probe: AttentionProbe | None = None,
    ) -> Tensor:
        """Compute a step of rows that depend on their sequence and position alone."""
        if not sequences:
            return torch.empty(0)
        batch = InputBatch(
            kinds=np.zeros(len(sequences), dtype=np.uint8),
            ids=np.zeros((len(sequences), 4), dtype=np.int32),
            vectors=np.zeros((0, 1), dtype=np.float32),
            positions=np.array(positions, dtype=np.int32),
            tables=self.tables,
            table_of=np.array(sequences, dtype=np.int32),
            draws=np.zeros(0, dtype=np.int32),
            probe=probe,
        )
        heads, kv_heads = self.shape.num_attention_heads, self.shape.num_key_value_heads
        rows = torch.stack(
            [
                torch.randn(
                    heads + 2 * kv_heads,
                    self.shape.head_dim,
                    generator=torch.Generator().manual_seed(1000 * sequence + position),
                )
                for sequence, position in zip(sequences, positions, strict=True)
            ]
        )
        query, key, value = rows.split([heads, kv_heads, kv_heads], dim=1)
        plan = self.attention.plan(batch, self.pool)
        return self.attention(3 * query, key, value, self.pool, LAYER, plan)


def tiled(shape: LlamaShape, block_size: int, lengths: Sequence[int] = LENGTHS) -> Filled:
    if not attention_agrees(shape):
        pytest.skip("this machine's products of batches depend on the batch")
    attention = TiledAttention(shape, block_size)
    return Filled(attention, shape, block_size, lengths)


def last_rows(filled: Filled, probe: AttentionProbe | None = None) -> Tensor:
    everything = list(range(len(LENGTHS)))
    return filled.attend(everything, [length - 1 for length in LENGTHS], probe)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("block_size", [7, 32, 256])
def test_as_row_by_row(shape: LlamaShape, block_size: int) -> None:
    reference = TorchAttention()
    expected = Filled(reference, shape, block_size, LENGTHS)
    found = tiled(shape, block_size)
    probes: list[tuple[Tensor, Tensor]] = []
    three = HeadSet(np.array([0, LAYER, LAYER]), np.array([0, 2, 0]), columns=290)
    one = HeadSet(np.array([LAYER]), np.array([1]), columns=12)
    for filled in (found, expected):
        heads = [(1, three), (4, one)]
        probe = AttentionProbe.of(len(LENGTHS), heads)
        probe.out[:] = -1
        probes.append((last_rows(filled, probe), torch.from_numpy(probe.out)))
    for found_one, expected_one in zip(*probes, strict=True):
        torch.testing.assert_close(found_one, expected_one, atol=4e-6, rtol=0)
    assert (probes[0][1] == -1).sum() == 290  # of a layer that was not computed


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_no_bit_of_a_row_depends_on_the_others(
    shape: LlamaShape, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled = tiled(shape, 32)
    together = last_rows(filled)
    assert together.isfinite().all()
    for number, length in enumerate(LENGTHS):
        assert filled.attend([number], [length - 1])[0].equal(together[number])
    few = filled.attend([6, 1, 6], [130, 299, 131])
    assert few[1].equal(together[1])
    # In chunks of other sizes, from blocks of another size, and the whole prompt at once.
    for block_size, pairs in ((32, 1), (7, 3), (64, 2)):
        other = tiled(shape, block_size)
        monkeypatch.setattr(tiled_attention, "_PAIRS", pairs)
        assert last_rows(other).equal(together)
    rows = filled.attend([1] * 300, list(range(300)))
    assert rows[299].equal(together[1])
    assert rows[131].equal(filled.attend([1], [131])[0])


def test_what_a_block_held_before_is_forgotten() -> None:
    """Another sequence's numbers that are not finite must not come back through the values."""
    shape = SHAPES["heads of 16"]
    filled = tiled(shape, 32)
    expected = last_rows(filled)
    filled.pool[filled.tables[4, :2]] = torch.inf
    filled.attend([4] * 39, list(range(39)))
    assert last_rows(filled).equal(expected)


def test_a_pool_of_few_vectors() -> None:
    shape = make_shape(32, 1, 1, 32, layers=2)
    found = tiled(shape, 8, [9, 2])
    expected = Filled(TorchAttention(), shape, 8, [9, 2])
    rows = [filled.attend([0, 1], [8, 1]) for filled in (found, expected)]
    torch.testing.assert_close(*rows, atol=4e-6, rtol=0)


def test_narrow_keys_and_values() -> None:
    shape = SHAPES["two groups"]
    if not attention_agrees(shape):
        pytest.skip("this machine's products depend on the rows")
    found, expected = (
        last_rows(Filled(attention, shape, 32, LENGTHS, torch.bfloat16))
        for attention in (
            TiledAttention(shape, 32),
            TorchAttention(),
        )
    )
    torch.testing.assert_close(found, expected, atol=4e-6, rtol=0)
