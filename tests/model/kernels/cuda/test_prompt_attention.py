"""Attention of the rows of prompts in tiles: the bits of single rows, whatever is in the tile."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from .test_attention import LAYER, Case, assert_near, make_case

from ChatTTS.model.kernels.cuda import prompt_attention  # isort: skip
from ChatTTS.model.kernels.cuda.attention import SPLIT  # isort: skip
from ChatTTS.model.kernels.cuda.prompt_attention import attend_prompts, tile_for  # isort: skip

# A chunk that begins within a block and a tile and goes over the end of a split; sequences of which
# several are in one tile; padding; a row that decodes.
MIXED = [(SPLIT - 3, 5), (0, 2), (-1, 2), (37, 1), (61, 3)]
TILES = (2, 4)
SHAPES = [
    (torch.float32, 2, 1, 16),
    (torch.float32, 1, 1, 24),
    (torch.float16, 2, 2, 128),
    (torch.bfloat16, 2, 1, 64),
]
_NUMBERS = {2: torch.int16, 4: torch.int32}


def in_tiles(case: Case, tile_rows: int) -> Tensor:
    given = case.query, case.pool, LAYER, case.tables, case.table_of, case.positions
    return attend_prompts(*given, max_positions=case.max_positions, tile_rows=tile_rows)


def bits(found: Tensor) -> Tensor:
    return found.view(_NUMBERS[found.element_size()])


@pytest.mark.slow
@pytest.mark.parametrize("tile_rows", TILES)
@pytest.mark.parametrize(("dtype", "heads", "kv_heads", "size"), SHAPES)
def test_rows_in_tiles_have_the_bits_of_single_rows(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, tile_rows: int
) -> None:
    case = make_case(MIXED, dtype=dtype, heads=heads, kv_heads=kv_heads, size=size)
    found = in_tiles(case, tile_rows)
    assert torch.equal(bits(found), bits(case.decoded()))
    assert_near(found, case.decoded_by_twin())


@pytest.mark.slow
@pytest.mark.parametrize("tile_rows", TILES)
@pytest.mark.parametrize("first", [0, 3, SPLIT - 2, SPLIT - 1, SPLIT, 2 * SPLIT - 3])
@pytest.mark.parametrize("count", [1, 4, 5, 9])
def test_a_chunk_may_begin_and_end_anywhere(first: int, count: int, tile_rows: int) -> None:
    case = make_case([(first, count)], dtype=torch.bfloat16, heads=1, kv_heads=1, size=32)
    assert torch.equal(bits(in_tiles(case, tile_rows)), bits(case.decoded()))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of NaN
@pytest.mark.parametrize("harm", [torch.nan, torch.inf])
@pytest.mark.slow_for("inf")
def test_a_row_does_not_see_what_is_behind_it_in_its_tile(harm: float) -> None:
    case = make_case([(2, 4)], heads=1, kv_heads=1, size=16)
    keys, values = case.pool[int(case.tables[0, 0]), LAYER, :, 0]
    before = in_tiles(case, 4)
    keys[5], values[5] = harm, harm
    found = in_tiles(case, 4)
    assert torch.equal(bits(found[:3]), bits(before[:3]))
    assert found[3].isnan().any()


def test_one_program_may_go_over_all_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case([(SPLIT + 2, 3)], heads=1, kv_heads=1, size=16)
    apart = in_tiles(case, 4)
    monkeypatch.setattr(prompt_attention, "PROGRAMS", 1)
    assert torch.equal(bits(in_tiles(case, 4)), bits(apart))


def test_no_rows_at_all() -> None:
    case = make_case([(3, 1)]).rows(slice(0))
    given = case.query, case.pool, LAYER, case.tables, case.table_of, case.positions
    assert attend_prompts(*given, max_positions=1, tile_rows=4).shape == (0, 2, 64)


def test_few_rows_are_not_put_into_tiles() -> None:
    """Programs of their own keep more of the GPU busy."""
    assert [tile_for(rows, 12) for rows in (1, 16, 84, 85, 2048)] == [1, 1, 1, 4, 4]
