"""Keys and values in eight bits: kernels store and read what torch does, to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from .test_attention import LAYER, RAGGED, Case, assert_near, decoding, make_case

from ChatTTS.model.kernels import int8  # isort: skip
from ChatTTS.model.kernels.cuda import attention  # isort: skip
from ChatTTS.model.kernels.cuda.attention import (  # isort: skip
    SPLIT,
    attend_new_rows,
    attend_new_rows_torch,
)
from ChatTTS.model.kernels.cuda.prompt_attention import attend_prompts  # isort: skip
from ChatTTS.model.kernels.cuda.rotary import rotate_and_store  # isort: skip
from ChatTTS.model.kernels.cuda.text_attention import (  # isort: skip
    attend_text,
    attend_text_torch,
)
from ChatTTS.model.kernels.torch_references import rotate_and_store_torch  # isort: skip
from ....support.cache_tools import in_int8  # isort: skip
from ....support.kernel_tools import DEVICE  # isort: skip

# The dtype of queries, heads, heads of keys, head size, block size.
SHAPES = [
    (torch.float32, 2, 2, 64, 16),
    (torch.float32, 6, 2, 24, 5),
    (torch.bfloat16, 2, 1, 64, 32),
    (torch.float16, 2, 2, 128, 8),
]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of NaN


def case_of(
    spans: list[tuple[int, int]],
    dtype: torch.dtype,
    heads: int,
    kv_heads: int,
    size: int,
    block_size: int,
) -> Case:
    case = make_case(
        spans, dtype=dtype, heads=heads, kv_heads=kv_heads, size=size, block_size=block_size
    )
    return replace(case, pool=in_int8(case.pool))


def new_rows(case: Case, heads: int, kv_heads: int, size: int) -> tuple[Tensor, Any]:
    """Return queries, keys and values before the rotation, and the angles."""
    random = torch.Generator().manual_seed(size)
    qkv = torch.randn(len(case.positions), (heads + 2 * kv_heads) * size, generator=random)
    angles = 6 * torch.randn(SPLIT * 3, size, generator=random)
    rotary = angles.cos().to(DEVICE), angles.sin().to(DEVICE)
    return qkv.to(DEVICE, case.query.dtype), rotary


def stored(case: Case, store: Any, qkv: Tensor, rotary: Any, heads: int) -> Tensor:
    pool = case.pool.clone()
    where = case.positions, case.tables, case.table_of
    store(qkv, *rotary, *where, pool, LAYER, heads)
    return pool


@pytest.mark.smoke
def test_a_head_of_a_block_is_its_numbers_and_then_their_scales() -> None:
    pool = torch.zeros(2, 3, 2, 1, 5, 24 + 4, dtype=torch.int8)
    assert int8.head_sizes(pool) == (1, 5, 24)
    numbers, scales = int8.split_scales(pool[:, 1])
    numbers[1, 0, 0, 2], scales[1, 0, 0, 2] = 7, 0.5
    whole = pool[1, 1, 0, 0].flatten()
    assert whole[2 * 24 : 3 * 24].tolist() == [7] * 24
    assert whole[5 * 24 :].view(torch.float32).tolist() == [0, 0, 0.5, 0, 0]
    assert int8.dequantize(pool[:, 1])[1, 0, 0, 2].tolist() == [3.5] * 24
    assert pool.count_nonzero() == 24 + 1


@pytest.mark.smoke
def test_whole_numbers_reach_127_and_keep_what_is_no_number() -> None:
    given = torch.tensor(
        [[1.0, -0.25, 2.0, 0.0], [0.0] * 4, [1e-35] * 4, [1, torch.nan, 0, 0], [-torch.inf] * 4]
    )
    numbers, scales = int8.quantize(given)
    assert numbers[0].tolist() == [64, -16, 127, 0]  # 63.5 goes to the even one
    assert scales[0] == torch.tensor(2.0) / 127
    assert not numbers[1:].any()
    assert scales[1:3].tolist() == [0, 0]
    assert scales[3:].isnan().all()


@pytest.mark.parametrize(("dtype", "heads", "kv_heads", "size", "block_size"), SHAPES)
def test_what_is_stored_is_what_the_twin_stores(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, block_size: int
) -> None:
    case = case_of(RAGGED, dtype, heads, kv_heads, size, block_size)
    qkv, rotary = new_rows(case, heads, kv_heads, size)
    qkv[0, -1], qkv[1, -1], qkv[2, -size:] = torch.nan, torch.inf, 0  # of values
    found, expected = (
        stored(case, store, qkv, rotary, heads)
        for store in (rotate_and_store, rotate_and_store_torch)
    )
    ours, theirs = int8.split_scales(found), int8.split_scales(expected)
    # Values are not rotated, and a rotation may end in another last bit.
    for own, other in zip(ours, theirs, strict=True):
        own, other = (each[:, LAYER, 1].nan_to_num(7.0) for each in (own, other))
        assert torch.equal(own, other)
    keys, other_keys = ours[0][:, LAYER, 0].int(), theirs[0][:, LAYER, 0].int()
    assert (keys - other_keys).abs().max() <= 1
    torch.testing.assert_close(ours[1], theirs[1], rtol=1e-2, atol=0, equal_nan=True)
    block, slot = case.tables[0, 0], case.positions[0]
    assert ours[1][block, LAYER, 1, -1, slot].isnan()


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "heads", "kv_heads", "size", "block_size"), SHAPES)
def test_decoding_rows_equal_the_twin_and_see_nothing_else(
    dtype: torch.dtype,
    heads: int,
    kv_heads: int,
    size: int,
    block_size: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = case_of(RAGGED, dtype, heads, kv_heads, size, block_size)
    together = case.decoded(max_positions=1024)
    assert_near(together, case.decoded_by_twin())
    assert not together[case.table_of < 0].any()
    assert torch.equal(case.rows([4]).decoded(), together[4:5])
    monkeypatch.setattr(attention, "PROGRAMS", 1)  # one program goes over all splits
    assert torch.equal(case.decoded(), together)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "heads", "kv_heads", "size", "block_size"), SHAPES)
def test_new_rows_are_stored_and_attended_to_in_one_launch(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, block_size: int
) -> None:
    """They give the bits of two launches, in the pool as well."""
    spans = decoding([0, 2 * SPLIT + 37, -1, SPLIT - 1, SPLIT])
    case = case_of(spans, dtype, heads, kv_heads, size, block_size)
    qkv, rotary = new_rows(case, heads, kv_heads, size)
    where, most = (case.tables, case.table_of, case.positions), case.max_positions

    pool = case.pool.clone()
    cosines, sines = rotary
    turned = cosines, sines, case.positions, case.tables, case.table_of
    query = rotate_and_store(qkv, *turned, pool, LAYER, heads)
    expected = attention.attend_rows(query, pool, LAYER, *where, max_positions=most)
    results = []
    for attend in (attend_new_rows, attend_new_rows_torch):
        own = case.pool.clone()
        given = qkv, rotary, own, LAYER, *where
        results.append((attend(*given, heads=heads, max_positions=most), own))
    (found, new_pool), (by_twin, _) = results
    assert torch.equal(found.merged(dtype), expected)
    assert torch.equal(new_pool, pool)
    assert_near(expected, by_twin.merged_torch(dtype))


@pytest.mark.parametrize("tile_rows", [2, 4])
@pytest.mark.parametrize(
    ("dtype", "heads", "kv_heads", "size", "block_size"), [SHAPES[1], SHAPES[2]]
)
def test_rows_of_prompts_have_the_bits_of_single_rows(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, block_size: int, tile_rows: int
) -> None:
    spans = [(SPLIT - 3, 5), (0, 2), (-1, 2), (37, 1)]
    case = case_of(spans, dtype, heads, kv_heads, size, block_size)
    given = case.query, case.pool, LAYER, case.tables, case.table_of, case.positions
    found = attend_prompts(*given, max_positions=case.max_positions, tile_rows=tile_rows)
    assert torch.equal(found, case.decoded())


@pytest.mark.parametrize(("dtype", "heads", "kv_heads", "size", "block_size"), SHAPES)
def test_chunks_of_prompts_equal_the_twin(
    dtype: torch.dtype, heads: int, kv_heads: int, size: int, block_size: int
) -> None:
    spans = [(0, 20), (63, 1), (-1, 3), (100, 5)]
    case = case_of(spans, dtype, heads, kv_heads, size, block_size)
    found = case.chunked()
    assert_near(found, case.chunked_by_twin())
    assert not found[case.table_of < 0].any()


@pytest.mark.parametrize(("kv_heads", "size"), [(4, 64), (2, 24)])
def test_attention_to_the_text_equals_the_twin(kv_heads: int, size: int) -> None:
    case = case_of(decoding([7, SPLIT + 30, -1]), torch.bfloat16, 4, kv_heads, size, 16)
    qkv, rotary = new_rows(case, 4, kv_heads, size)
    # Row, layer, head, columns, start.
    entries = torch.tensor([[0, 1, 0, 7, 0], [1, 1, 3, SPLIT + 5, 7], [2, 1, 0, 9, SPLIT + 12]])
    results = []
    for attend in (attend_text, attend_text_torch):
        found = torch.full((SPLIT + 21,), -1.0, device=DEVICE)
        where = case.tables, case.table_of, case.positions
        attend(
            entries.int().to(DEVICE),
            qkv.expand(3, *qkv.shape).contiguous(),
            rotary,
            case.pool,
            *where,
            found,
        )
        results.append(found)
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=2e-2)
    assert (results[0] == -1).sum() == 9  # the padding's columns
