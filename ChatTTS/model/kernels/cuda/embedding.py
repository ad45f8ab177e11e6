"""Embedding of the Llama's inputs: text ids, frames of codes and speaker vectors in one batch."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ...embed import RowKind
from .launching import launcher


def embed_rows(
    kinds: Tensor,
    ids: Tensor,
    vectors: Tensor,
    text_table: Tensor,
    code_table: Tensor,
    slots: Tensor | None = None,
) -> Tensor:
    """Embed every row. All arguments are contiguous.

    Args:
        kinds: uint8 [rows], values of :class:`~ChatTTS.model.embed.RowKind`.
        ids: int32 [rows, num_codebooks]: a text id or the index of a vector in the first column, or
            the codes of a frame.
        vectors: float32 [n, hidden]; n may be 0 if no row refers to a vector.
        text_table: [text ids, hidden], of any float dtype.
        code_table: [num_codebooks * codes, hidden], in the dtype of ``text_table``; codebook q
            begins at row q * codes.
        slots: int32 [rows], where the row's kind and ids are; by default they are in order.

    Returns:
        [rows, hidden] in the dtype of the tables; the codes of a frame are summed in float32.
    """
    rows, num_codebooks = len(ids if slots is None else slots), ids.shape[1]
    hidden = text_table.shape[1]
    out = text_table.new_empty(rows, hidden)
    if rows:
        launcher(_embed_rows, (rows,))(
            kinds,
            ids,
            vectors,
            text_table,
            code_table,
            slots,
            out,
            num_codebooks,
            code_table.shape[0] // num_codebooks,
            hidden,
            int(RowKind.TEXT),
            int(RowKind.CODE),
            triton.next_power_of_2(hidden),
            num_warps=4,
        )
    return out


@triton.jit
def _embed_rows(
    kinds: tl.tensor,
    ids: tl.tensor,
    vectors: tl.tensor,
    text_table: tl.tensor,
    code_table: tl.tensor,
    slots: tl.tensor,
    out: tl.tensor,
    num_codebooks: tl.constexpr,
    codes: tl.constexpr,
    hidden: tl.constexpr,
    text_kind: tl.constexpr,
    code_kind: tl.constexpr,
    block: tl.constexpr,
) -> None:
    row = tl.program_id(0).to(tl.int64)
    place = row
    if slots is not None:
        place = tl.load(slots + row).to(tl.int64)
    columns = tl.arange(0, block)
    inside = columns < hidden
    kind = tl.load(kinds + place)
    first = tl.load(ids + place * num_codebooks).to(tl.int64)
    x = tl.zeros([block], dtype=tl.float32)
    if kind == text_kind:
        x += tl.load(text_table + first * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    elif kind == code_kind:
        for codebook in tl.static_range(num_codebooks):
            code = tl.load(ids + place * num_codebooks + codebook).to(tl.int64) + codebook * codes
            of_code = code_table + code * hidden + columns
            x += tl.load(of_code, mask=inside, other=0.0).to(tl.float32)
    else:
        x += tl.load(vectors + first * hidden + columns, mask=inside, other=0.0)
    tl.store(out + row * hidden + columns, x.to(out.dtype.element_ty), mask=inside)
