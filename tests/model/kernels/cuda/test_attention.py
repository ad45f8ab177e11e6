"""Attention kernels against their references, on contexts of any length in blocks of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda import attention
from ChatTTS.model.kernels.cuda.attention import (
    SPLIT,
    attend_new_rows,
    attend_new_rows_torch,
    attend_rows,
)
from ChatTTS.model.kernels.cuda.output_product import (
    product_of_splits,
    product_of_splits_torch,
)
from ChatTTS.model.kernels.cuda.prefill import (
    TILE,
    attend_chunks,
    attend_chunks_torch,
    tiles_of,
)
from ChatTTS.model.kernels.cuda.products import product
from ChatTTS.model.kernels.cuda.rotary import rotate_and_store
from ChatTTS.model.kernels.torch_references import attend_rows_torch

from ....support.kernel_tools import DEVICE

LAYERS, LAYER = 3, 1
# Results are about 1, and each rounding to a dtype errs by its last bit. The interpreter cuts
# bfloat16 off instead of rounding it, which costs a bit more.
ERRORS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
KINDS = [
    (torch.float32, 8),
    (torch.float32, 64),
    (torch.float16, 16),
    (torch.bfloat16, 32),
]


@dataclass(frozen=True)
class Case:
    """The inputs of an attention kernel: the rows of some sequences and their block tables."""

    query: Tensor
    pool: Tensor
    tables: Tensor
    table_of: Tensor
    positions: Tensor

    @property
    def max_positions(self) -> int:
        return int(self.positions.max()) + 1

    def rows(self, chosen: list[int] | slice) -> Case:
        return Case(
            self.query[chosen],
            self.pool,
            self.tables,
            self.table_of[chosen],
            self.positions[chosen],
        )

    def decoded(self, max_positions: int | None = None) -> Tensor:
        return attend_rows(
            *self._common(),
            self.table_of,
            self.positions,
            max_positions=max_positions or self.max_positions,
        )

    def decoded_by_twin(self) -> Tensor:
        return attend_rows_torch(
            *self._common(), self.table_of, self.positions, max_positions=self.max_positions
        )

    def chunked(self) -> Tensor:
        return attend_chunks(*self._common(), self.positions, self._tiles())

    def chunked_by_twin(self) -> Tensor:
        return attend_chunks_torch(*self._common(), self.positions, self._tiles())

    def _common(self) -> tuple[Tensor, Tensor, int, Tensor]:
        return self.query, self.pool, LAYER, self.tables

    def _tiles(self) -> Tensor:
        return torch.from_numpy(tiles_of(self.table_of.cpu().numpy())).to(DEVICE)


def make_case(
    spans: list[tuple[int, int]],
    *,
    dtype: torch.dtype = torch.float32,
    heads: int = 2,
    kv_heads: int = 2,
    size: int = 64,
    block_size: int = 16,
) -> Case:
    """Make a case with one sequence for each span (first position, number of rows).

    A span that starts at -1 is padding. The memory that no row may read holds NaN.
    """
    random = torch.Generator().manual_seed(len(spans) + block_size + size)
    lengths = [first + count if first >= 0 else 0 for first, count in spans]
    counts = [-(-length // block_size) for length in lengths]
    pool = torch.full((sum(counts) + 1, LAYERS, 2, kv_heads, block_size, size), torch.nan)
    order = torch.randperm(sum(counts), generator=random).int() + 1
    tables = torch.full((len(spans), max(counts) + 1), 1 << 20, dtype=torch.int32)
    for table, length, blocks in zip(tables, lengths, order.split(counts), strict=True):
        table[: len(blocks)] = blocks
        for index, block in enumerate(blocks.tolist()):
            held = pool[block, LAYER, :, :, : length - index * block_size]
            held.copy_(torch.randn(held.shape, generator=random))
    table_of = [
        index if first >= 0 else -1 for index, (first, n) in enumerate(spans) for _ in range(n)
    ]
    positions = [max(first, 0) + i for first, n in spans for i in range(n)]
    query = torch.randn(len(positions), heads, size, generator=random)
    return Case(
        query.to(DEVICE, dtype),
        pool.to(DEVICE, dtype),
        tables.to(DEVICE),
        torch.tensor(table_of, dtype=torch.int32, device=DEVICE),
        torch.tensor(positions, dtype=torch.int32, device=DEVICE),
    )


def assert_near(found: Tensor, expected: Tensor) -> None:
    error = ERRORS[found.dtype]
    torch.testing.assert_close(found.float(), expected.float(), atol=error, rtol=error)


def decoding(positions: list[int]) -> list[tuple[int, int]]:
    return [(position, 1) for position in positions]


NEW = [
    (torch.float32, 2, 2, 64),
    (torch.float32, 6, 2, 24),
    (torch.bfloat16, 5, 5, 64),
    (torch.bfloat16, 8, 1, 32),
    (torch.float16, 2, 2, 128),
]
RAGGED = decoding([0, 7, 64, -1, SPLIT - 1, SPLIT, 2 * SPLIT + 37, -1])


@pytest.mark.parametrize(("dtype", "block_size"), KINDS)
def test_decoding_rows_equal_the_twin(dtype: torch.dtype, block_size: int) -> None:
    case = make_case(RAGGED, dtype=dtype, block_size=block_size)
    found = case.decoded()
    assert_near(found, case.decoded_by_twin())
    assert not found[case.table_of < 0].any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heads", "kv_heads", "size"), [(1, 1, 32), (6, 2, 16), (4, 4, 24), (8, 1, 128)]
)
def test_heads_share_keys(heads: int, kv_heads: int, size: int) -> None:
    case = make_case(decoding([300, -1, 5]), heads=heads, kv_heads=kv_heads, size=size)
    assert_near(case.decoded(), case.decoded_by_twin())
    assert_near(case.chunked(), case.chunked_by_twin())


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 17])
def test_any_number_of_rows(rows: int) -> None:
    case = make_case(decoding([(37 * row) % 90 for row in range(rows)]))
    assert_near(case.decoded(), case.decoded_by_twin())


def test_no_rows_at_all() -> None:
    case = make_case(decoding([3])).rows(slice(0))
    assert case.decoded(max_positions=1).shape == case.chunked().shape == (0, 2, 64)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.slow_for("dtype[01]")
def test_a_decoding_row_sees_neither_its_neighbours_nor_the_launch(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(RAGGED, dtype=dtype)
    together = case.decoded(max_positions=1024)
    for row in range(0, len(RAGGED), 2):
        if case.table_of[row] >= 0:
            assert torch.equal(case.rows([row]).decoded(), together[row : row + 1])
    monkeypatch.setattr(attention, "PROGRAMS", 1)  # one program goes over all splits
    assert torch.equal(case.decoded(), together)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of NaN
def test_a_score_that_is_no_number_stays_in_its_row() -> None:
    case = make_case(decoding([40, 400, 40]))
    whole = case.decoded()
    case.query[1, 0, 0] = torch.nan
    found = case.decoded()
    assert found[1, 0].isnan().all()
    assert torch.equal(found[[0, 2]], whole[[0, 2]])


def test_great_scores_do_not_overflow() -> None:
    case = make_case(decoding([600, 20]))
    case.query.mul_(1000)
    assert_near(case.decoded(), case.decoded_by_twin())
    assert_near(case.chunked(), case.chunked_by_twin())


@pytest.mark.parametrize(("dtype", "heads", "kv_heads", "size"), NEW)
@pytest.mark.parametrize("rows", [1, 6, 20])
@pytest.mark.slow_for("20-*", "6-*")
def test_new_rows_are_stored_and_projected_in_two_launches(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, rows: int
) -> None:
    """They give the bits of four launches, whatever the number of rows."""
    lengths = [0, 2 * SPLIT + 37, -1, SPLIT - 1, 64, SPLIT]
    case = make_case(
        decoding([lengths[row % 6] for row in range(rows)]),
        dtype=dtype,
        heads=heads,
        kv_heads=kv_heads,
        size=size,
    )
    random = torch.Generator().manual_seed(rows)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=random)

    qkv = normal(rows, (heads + 2 * kv_heads) * size).to(DEVICE, dtype)
    angles = 6 * normal(SPLIT * 3, size)
    rotary = angles.cos().to(DEVICE), angles.sin().to(DEVICE)
    weight = (normal(40, heads * size) * (heads * size) ** -0.5).to(DEVICE, dtype)
    residual = normal(rows, 40).to(DEVICE, dtype)
    where, max_positions = (case.tables, case.table_of, case.positions), case.max_positions

    def separately() -> tuple[Tensor, Tensor]:
        pool = case.pool.clone()
        positions, tables, table_of = case.positions, case.tables, case.table_of
        query = rotate_and_store(qkv, *rotary, positions, tables, table_of, pool, LAYER, heads)
        mixed = attend_rows(query, pool, LAYER, *where, max_positions=max_positions).flatten(1)
        return product(mixed, weight, residual=residual.clone()), pool

    def fused(attend: Callable[..., Any], project: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        pool = case.pool.clone()
        splits = attend(qkv, rotary, pool, LAYER, *where, heads=heads, max_positions=max_positions)
        return project(splits, weight, residual.clone()), pool

    expected, stored = separately()
    found, pool = fused(attend_new_rows, product_of_splits)
    assert torch.equal(found, expected)
    assert torch.equal(pool.nan_to_num(nan=7.0), stored.nan_to_num(nan=7.0))
    found, pool = fused(attend_new_rows_torch, product_of_splits_torch)
    bound = 4 * ERRORS[dtype]
    torch.testing.assert_close(found.float(), expected.float(), atol=bound, rtol=bound)
    torch.testing.assert_close(pool, stored, atol=bound, rtol=bound, equal_nan=True)


MIXED = [(0, 1), (0, 20), (63, 1), (-1, 3), (100, 16), (5, 1), (-1, 1)]


@pytest.mark.parametrize(("dtype", "block_size"), KINDS)
def test_chunks_equal_the_twin(dtype: torch.dtype, block_size: int) -> None:
    case = make_case(MIXED, dtype=dtype, block_size=block_size)
    found = case.chunked()
    assert_near(found, case.chunked_by_twin())
    assert not found[case.table_of < 0].any()


def test_both_kernels_agree() -> None:
    case = make_case([(70, 1), (250, 9)])
    assert_near(case.chunked(), case.decoded())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("cut", [5, 16])
def test_a_prompt_may_be_cut_anywhere(dtype: torch.dtype, cut: int) -> None:
    case = make_case([(60, 34)], dtype=dtype, heads=1, kv_heads=1)
    whole = case.chunked()
    pieces = [case.rows(slice(first, first + cut)).chunked() for first in range(0, 34, cut)]
    assert torch.equal(torch.cat(pieces), whole)


def test_empty_tiles_do_nothing() -> None:
    case = make_case([(0, 20)])
    tiles = np.concatenate([tiles_of(case.table_of.cpu().numpy()), np.zeros((3, 3), np.int32)])
    given = torch.from_numpy(tiles).to(DEVICE)
    found = attend_chunks(case.query, case.pool, LAYER, case.tables, case.positions, given)
    assert torch.equal(found, case.chunked())


def test_tiles_cover_every_row_once_and_mix_no_sequences() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        order = random.permutation(8)[: random.integers(0, 8)] - 1  # -1 is padding
        table_of = np.repeat(order, random.integers(1, 50, len(order))).astype(np.int32)
        tiles = tiles_of(table_of)
        assert tiles.dtype == np.int32
        covered = [(np.arange(first, first + rows), table) for first, rows, table in tiles]
        assert np.array_equal(
            np.concatenate([[], *(rows for rows, _ in covered)]), range(len(table_of))
        )
        assert all((table_of[rows] == table).all() for rows, table in covered)
        assert ((tiles[:, 1] >= 1) & (tiles[:, 1] <= TILE)).all()
        assert len(tiles) == sum(-(-int((table_of == table).sum()) // TILE) for table in order)
