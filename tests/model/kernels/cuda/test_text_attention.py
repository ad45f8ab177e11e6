"""The attention of chosen heads to the text, against its reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ....support.kernel_tools import DEVICE

from ChatTTS.model.kernels.cuda.attention import SPLIT  # isort: skip
from ChatTTS.model.kernels.cuda.text_attention import (  # isort: skip
    attend_text,
    attend_text_torch,
)

LAYERS, ROWS, BLOCK_SIZE = 2, 4, 16
LENGTHS = [7, SPLIT + 30, 0, 2 * SPLIT + 1]  # the third row is padding
# Row, layer, head, columns.
WANTED = [(0, 1, 0, 7), (1, 0, 3, 12), (1, 1, 2, SPLIT + 5), (2, 0, 0, 9), (3, 1, 1, 300)]
ERRORS = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def computed(dtype: torch.dtype, kv_heads: int, size: int, only: slice = slice(None)) -> Tensor:
    """Return what the kernel finds for some entries, each in its place, beside what torch finds.

    Memory that no entry may read holds NaN, and what is not written stays -1.
    """
    heads = 4
    random = torch.Generator().manual_seed(size)
    blocks = max(LENGTHS) // BLOCK_SIZE + 1
    tables = torch.randperm(ROWS * blocks, generator=random).int().view(ROWS, blocks)
    pool = torch.full((ROWS * blocks, LAYERS, 2, kv_heads, BLOCK_SIZE, size), torch.nan)
    for table, length in zip(tables.tolist(), LENGTHS, strict=True):
        for index, block in enumerate(table):
            held = pool[block, :, :, :, : max(0, length - index * BLOCK_SIZE)]
            held.copy_(torch.randn(held.shape, generator=random))
    angles = 6 * torch.randn(max(LENGTHS), size, generator=random)
    qkv = torch.randn(LAYERS, ROWS, (heads + 2 * kv_heads) * size, generator=random)
    ends = torch.tensor([columns for *_, columns in WANTED]).cumsum(0).tolist()
    entries = [(*each, end - each[3]) for each, end in zip(WANTED, ends, strict=True)]
    results = []
    for attend in (attend_text, attend_text_torch):
        results.append(torch.full((ends[-1],), -1.0, device=DEVICE))
        attend(
            torch.tensor(entries[only], dtype=torch.int32, device=DEVICE),
            qkv.to(DEVICE, dtype),
            (angles.cos().to(DEVICE), angles.sin().to(DEVICE)),
            pool.to(DEVICE, dtype),
            tables.to(DEVICE),
            torch.tensor([0, 1, -1, 3], dtype=torch.int32, device=DEVICE),
            torch.tensor(LENGTHS, dtype=torch.int32, device=DEVICE),
            results[-1],
        )
    return torch.stack(results)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize(("kv_heads", "size"), [(4, 64), (2, 24), (1, 32)])
def test_the_kernel_equals_the_twin(dtype: torch.dtype, kv_heads: int, size: int) -> None:
    found, expected = computed(dtype, kv_heads, size)
    torch.testing.assert_close(found, expected, rtol=0, atol=ERRORS[dtype])
    assert (found == -1).sum() == 9  # the padding's columns
    torch.testing.assert_close(found[:7].sum().item(), 1.0, rtol=0, atol=1e-2)


def test_no_bit_of_an_entry_depends_on_the_others() -> None:
    whole = computed(torch.bfloat16, 4, 64)[0]
    alone = computed(torch.bfloat16, 4, 64, slice(1, 2))[0]
    assert torch.equal(alone[7:19], whole[7:19])
    assert (alone[:7] == -1).all()


def test_nothing_is_asked_for() -> None:
    assert (computed(torch.float32, 4, 64, slice(0)) == -1).all()
