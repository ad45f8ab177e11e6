"""References for Triton kernels, which also compute where no kernel runs: plain torch.

A kernel's launcher says what the arguments are; see the modules of ``cuda/``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import gelu as exact_gelu
from torch.nn.functional import layer_norm, linear

from ..embed import RowKind
from ..llama.rotary import rotate
from .int8 import dequantize, head_sizes, quantize, split_scales


def rms_norm_torch(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Apply RMSNorm (Zhang and Sennrich 2019) to each row, with sums in float32."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * (wide * scale).to(x.dtype)


def embed_rows_torch(
    kinds: Tensor,
    ids: Tensor,
    vectors: Tensor,
    text_table: Tensor,
    code_table: Tensor,
    slots: Tensor | None = None,
) -> Tensor:
    """Embed text ids, frames of codes and speaker vectors."""
    if slots is not None:
        kinds, ids = kinds[slots], ids[slots]
    ids, codebooks = ids.long(), ids.shape[1]
    offsets = torch.arange(codebooks, device=ids.device) * (len(code_table) // codebooks)
    if (kinds == RowKind.CODE).all():  # as in a step that only decodes
        return code_table[ids + offsets].sum(dim=1)
    x = text_table.new_empty(len(kinds), text_table.shape[1])
    text, code, vector = ((kinds == kind).nonzero().squeeze(1) for kind in RowKind)
    x[text] = text_table[ids[text, 0]]
    x[code] = code_table[ids[code] + offsets].sum(dim=1)
    x[vector] = vectors.to(x)[ids[vector, 0]]
    return x


def rotate_and_store_torch(
    qkv: Tensor,
    cosines: Tensor,
    sines: Tensor,
    positions: Tensor,
    tables: Tensor,
    table_of: Tensor,
    pool: Tensor,
    layer: int,
    heads: int,
) -> Tensor:
    """Rotate queries and keys, store keys and values, and return the queries."""
    kv_heads, _, size = head_sizes(pool)
    query = qkv.new_zeros(len(qkv), heads, size)
    there = (table_of >= 0).nonzero().squeeze(1)  # all others are padding
    fused, positions = qkv.view(len(qkv), -1, size)[there], positions[there]
    angles = (table[positions.long()].unsqueeze(1) for table in (cosines, sines))
    turned = rotate(fused[:, :-kv_heads], *angles)
    query[there] = turned[:, :heads]
    where = tables, table_of[there], positions
    store_torch(turned[:, heads:], fused[:, -kv_heads:], pool, layer, *where)
    return query


def store_torch(
    key: Tensor,
    value: Tensor,
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
) -> None:
    """Write keys and values [rows, kv heads, head size] into their blocks."""
    of, slots = positions.long() // pool.shape[4], (positions % pool.shape[4]).to(pool.device)
    blocks, own = tables[table_of.long(), of].long().to(pool.device), pool[:, layer]
    for kind, given in enumerate((key, value)):
        if pool.dtype is torch.int8:
            for part, taken in zip(split_scales(own), quantize(given), strict=True):
                part[blocks, kind, :, slots] = taken
        else:
            own[blocks, kind, :, slots] = given.to(pool.dtype)


def attend_rows_torch(
    query: Tensor,
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    *,
    max_positions: int,
    scale: float | None = None,
    note: Callable[[int, Tensor], None] | None = None,
) -> Tensor:
    """Attend row by row; ``max_positions`` is only checked.

    No bit of a row depends on the other rows, nor on how a prompt was cut.

    Args:
        scale: of the scores, by default one by the root of the head size.
        note: gets the number of each row and its probabilities [heads, positions].
    """
    kv_heads, block_size, size = head_sizes(pool)
    mixed, scale = torch.zeros_like(query), size**-0.5 if scale is None else scale
    for row, (sequence, position) in enumerate(
        zip(table_of.tolist(), positions.tolist(), strict=True)
    ):
        if sequence < 0:
            continue
        length = position + 1
        assert length <= max_positions, (
            f"row {row} attends to {length} positions, which is over {max_positions}"
        )
        used = tables[sequence, : -(-length // block_size)].long().to(pool.device)
        # [blocks, 2, heads, positions, size] to [2, heads, length, size]
        held = dequantize(pool[used, layer]).permute(1, 2, 0, 3, 4).flatten(2, 3)
        keys, values = held[:, :, :length]
        grouped = query[row].view(kv_heads, -1, size).float()
        weights = (grouped @ keys.transpose(1, 2) * scale).softmax(dim=-1)
        mixed[row] = (weights @ values).flatten(0, 1).to(query.dtype)
        if note is not None:
            note(row, weights.flatten(0, 1))
    return mixed


@dataclass(frozen=True)
class Residual:
    """The rows to which a dense layer adds its result.

    Attributes:
        rows: float32 [B, T, outputs], whose rows of one utterance are contiguous.
        scale: float32 [outputs], what the result is multiplied with first.
        there: float32 [B, T, 1], 1 for rows to which the result is added, and 0 for others.
    """

    rows: Tensor
    scale: Tensor
    there: Tensor


def dense_torch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    gelu: bool = False,
    added: Residual | None = None,
) -> Tensor:
    """Multiply rows [B, T, inputs] by the transposed ``weight``."""
    found = linear(x, weight, bias)
    if gelu:
        found = exact_gelu(found)
    # The scale is float32, and so is what it gives.
    return found if added is None else torch.addcmul(added.rows, found * added.scale, added.there)


@dataclass(frozen=True)
class ChannelNorm:
    """A LayerNorm over channels.

    Attributes:
        weight, bias: float32 [channels].
        eps: added to the variance.
    """

    weight: Tensor
    bias: Tensor
    eps: float


def depthwise_norm_torch(
    window: Tensor,
    taps: Tensor,
    bias: Tensor,
    norm: ChannelNorm,
    *,
    dilation: int,
    dtype: torch.dtype,
) -> Tensor:
    """Convolve each channel of [B, (kernel - 1) * dilation + T, channels], then norm each row."""
    span = (len(taps) - 1) * dilation + 1
    inputs = window.unfold(1, span, 1)[..., ::dilation].transpose(2, 3)  # [B, T, kernel, C]
    rows = (inputs * taps).sum(2) + bias
    return layer_norm(rows, rows.shape[2:], norm.weight, norm.bias, norm.eps).to(dtype)
