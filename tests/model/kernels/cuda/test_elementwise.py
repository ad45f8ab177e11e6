"""Kernels that look at one row: norms, rotation and storing, SwiGLU, embedding."""

from __future__ import annotations

# Before anything that imports Triton, whose own functions read its setting as they are declared.
from ....support.kernel_tools import DEVICE  # isort: skip

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ChatTTS.model.embed import RowKind
from ChatTTS.model.kernels.cuda.embedding import embed_rows
from ChatTTS.model.kernels.cuda.norm import rms_norm
from ChatTTS.model.kernels.cuda.rotary import rotate_and_store
from ChatTTS.model.kernels.cuda.swiglu import swiglu, swiglu_torch
from ChatTTS.model.kernels.torch_references import (
    embed_rows_torch,
    rms_norm_torch,
    rotate_and_store_torch,
)

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


# float32 functions may differ in their last bits, and what is then rounded may fall to the other
# side. The interpreter cuts bfloat16 off instead of rounding, up to three times in a row.
TOLERANCES = {
    torch.float32: 5e-6,
    torch.bfloat16: 2**-5 if DEVICE.type == "cpu" else 2**-6,
    torch.float16: 2**-9,
}


def assert_near(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == expected.dtype
    tolerance = TOLERANCES[found.dtype]
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance / 4)


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return values.to(DEVICE, dtype)


def assert_rows_stand_alone(function: Callable[[Tensor], Tensor], rows: Tensor) -> None:
    whole = function(rows)
    for row in range(len(rows)):
        assert function(rows[row : row + 1])[0].equal(whole[row])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "hidden"), [(1, 768), (17, 48), (5, 1024), (0, 16)])
def test_norms(rows: int, hidden: int, dtype: torch.dtype) -> None:
    x = random(rows, hidden, dtype=dtype) * 3
    weight = random(hidden, dtype=dtype, seed=2)
    untouched = x.clone()
    assert_near(rms_norm(x, weight, 1e-6), rms_norm_torch(x, weight, 1e-6))
    assert x.equal(untouched)


def test_eps_keeps_a_row_of_zeros() -> None:
    zeros = torch.zeros(2, 48, device=DEVICE)
    assert rms_norm(zeros, torch.ones(48, device=DEVICE), 1e-6).equal(zeros)
    small = torch.full((1, 48), 1e-3, device=DEVICE)
    found = rms_norm(small, torch.ones(48, device=DEVICE), 1e-6)
    assert_near(found, torch.full_like(small, 0.5**0.5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "inner"), [(1, 3072), (17, 40), (3, 1025), (0, 8)])
def test_swiglu(rows: int, inner: int, dtype: torch.dtype) -> None:
    gate_up = random(rows, 2 * inner, dtype=dtype) * 4
    assert_near(swiglu(gate_up), swiglu_torch(gate_up))


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")  # of the interpreter's NumPy
def test_swiglu_of_large_numbers() -> None:
    gate_up = torch.tensor([[-1e4, -100.0, 0.0, 100.0, 1.0, 2.0, 3.0, 4.0]], device=DEVICE)
    assert_near(swiglu(gate_up), torch.tensor([[0.0, 0.0, 0.0, 400.0]], device=DEVICE))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("rows", "hidden", "num_codebooks"), [(17, 48, 4), (1, 768, 4), (6, 16, 3)]
)
def test_embedding(rows: int, hidden: int, num_codebooks: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rows)
    text_table = random(30, hidden, dtype=dtype)
    code_table = random(num_codebooks * 11, hidden, dtype=dtype, seed=1)
    vectors = random(2, hidden, seed=2)
    kinds = torch.randint(0, 3, (rows,), generator=generator, dtype=torch.uint8)
    ids = torch.randint(0, 11, (rows, num_codebooks), generator=generator, dtype=torch.int32)
    ids[kinds == RowKind.TEXT, 0] += 19
    ids[kinds == RowKind.VECTOR, 0] %= 2
    arguments = (kinds.to(DEVICE), ids.to(DEVICE), vectors, text_table, code_table)
    found = embed_rows(*arguments)
    assert_near(found, embed_rows_torch(*arguments))
    slots = torch.arange(rows - 1, -1, -2, dtype=torch.int32, device=DEVICE)
    for embed in (embed_rows, embed_rows_torch):
        assert_near(embed(*arguments, slots), found[slots.long()])
    for row in range(0, rows, 5):
        alone = embed_rows(
            kinds[row : row + 1].to(DEVICE), ids[row : row + 1].to(DEVICE), *arguments[2:]
        )
        assert alone[0].equal(found[row])


def test_embedding_without_vectors() -> None:
    text_table, code_table = random(3, 16), random(8, 16)
    kinds = torch.tensor([RowKind.TEXT, RowKind.CODE], dtype=torch.uint8, device=DEVICE)
    ids = torch.tensor([[2, 7], [3, 1]], dtype=torch.int32, device=DEVICE)
    found = embed_rows(kinds, ids, torch.empty(0, 16, device=DEVICE), text_table, code_table)
    assert found.equal(torch.stack([text_table[2], code_table[3] + code_table[4 + 1]]))


class Rows:
    """Rows of several sequences: prompts and single positions, with padding rows among them."""

    def __init__(self, lengths: list[int], size: int, block_size: int) -> None:
        generator = torch.Generator().manual_seed(sum(lengths))
        starts = [0, 3, 2 * block_size - 1, block_size, 40]
        widest = max(
            (start + n) // block_size + 1 for start, n in zip(starts, lengths, strict=False)
        )
        count = len(lengths)
        blocks = torch.randperm(count * widest + 2, generator=generator, dtype=torch.int32)
        self.blocks = len(blocks)
        # Two unused columns: a block table may be wider than the blocks in use.
        self.tables = torch.full((count, widest + 2), 1 << 30, dtype=torch.int32)
        self.tables[:, :widest] = blocks[: count * widest].view(count, widest)
        sequences, positions = [-1], [-1]
        for sequence, (start, n) in enumerate(zip(starts, lengths, strict=False)):
            sequences += [sequence] * n
            positions += range(start, start + n)
        self.table_of = torch.tensor([*sequences, -1], dtype=torch.int32)
        self.positions = torch.tensor([*positions, 0], dtype=torch.int32)
        angles = torch.rand(128, size, generator=generator) * 6
        self.cosines, self.sines = angles.cos().to(DEVICE), angles.sin().to(DEVICE)

    def __len__(self) -> int:
        return len(self.positions)

    def rotate(
        self,
        function: Callable[..., Tensor],
        qkv: Tensor,
        pool: Tensor,
        layer: int,
        heads: int,
        only: slice = slice(None),
    ) -> Tensor:
        positions, tables, table_of = (
            tensor.to(DEVICE) for tensor in (self.positions[only], self.tables, self.table_of[only])
        )
        where = (self.cosines, self.sines, positions, tables, table_of)
        return function(qkv[only], *where, pool, layer, heads)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "size", "block_size", "heads", "kv_heads", "lengths"),
    [
        (torch.float32, 64, 8, 12, 12, [1]),
        (torch.float32, 16, 16, 4, 2, [1, 9, 1, 3, 1]),
        (torch.float32, 24, 8, 4, 4, [1, 3]),
        (torch.bfloat16, 32, 32, 6, 1, [5, 1]),
        (torch.float16, 128, 64, 2, 2, [2, 1, 1]),
    ],
)
def test_rotation_and_storing(
    dtype: torch.dtype, size: int, block_size: int, heads: int, kv_heads: int, lengths: list[int]
) -> None:
    rows = Rows(lengths, size, block_size)
    qkv = random(len(rows), (heads + 2 * kv_heads) * size, dtype=dtype)
    pool = random(rows.blocks, 3, 2, kv_heads, block_size, size, dtype=dtype)
    before = pool.clone()
    expected_pool = pool.clone()
    for layer in (0, 2):
        found = rows.rotate(rotate_and_store, qkv, pool, layer, heads)
        expected = rows.rotate(rotate_and_store_torch, qkv, expected_pool, layer, heads)
        assert_near(found, expected)
        assert not found[rows.table_of == -1].any()
    assert_near(pool, expected_pool)
    # Slots that no row was written to are unchanged, to the bit.
    untouched = expected_pool == before
    assert pool[untouched].equal(before[untouched])
    # The values are copied, and the layer between is left alone.
    assert pool[:, :, 1].equal(expected_pool[:, :, 1])
    assert pool[:, 1].equal(before[:, 1])


def test_a_row_is_rotated_as_if_it_were_alone() -> None:
    rows = Rows([4, 1], 16, 8)
    qkv = random(len(rows), 6 * 16)
    pool = random(rows.blocks, 1, 2, 1, 8, 16)
    single = pool.clone()
    whole = rows.rotate(rotate_and_store, qkv, pool, 0, 4)
    for row in range(len(rows)):
        alone = rows.rotate(rotate_and_store, qkv, single, 0, 4, only=slice(row, row + 1))
        assert alone[0].equal(whole[row])
    assert single.equal(pool)


def test_no_rows() -> None:
    pool = random(2, 1, 2, 1, 8, 16)
    none = torch.empty(0, dtype=torch.int32, device=DEVICE)
    table = torch.empty(0, 1, dtype=torch.int32, device=DEVICE)
    angles = torch.zeros(4, 16, device=DEVICE)
    found = rotate_and_store(random(0, 96), angles, angles, none, table, none, pool, 0, 4)
    assert found.shape == (0, 4, 16)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_do_not_see_their_neighbours(dtype: torch.dtype) -> None:
    weight = random(48, dtype=dtype, seed=2)
    assert_rows_stand_alone(lambda x: rms_norm(x, weight, 1e-6), random(5, 48, dtype=dtype))
    assert_rows_stand_alone(swiglu, random(5, 80, dtype=dtype))
