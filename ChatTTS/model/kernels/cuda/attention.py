"""Attention of single rows over paged keys and values, as decoding needs it.

The context of a row is cut into splits of a fixed number of positions. Each split is attended to
on its own, and the splits are merged in order. So the result does not depend on which program
computed which split, and a long context keeps many multiprocessors busy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..int8 import head_sizes
from ..torch_references import attend_rows_torch, rotate_and_store_torch
from .dependent_launch import follow, launch_options, let_begin, overlaps
from .int8 import absmax, quantize, scale_address, scale_of
from .launching import launcher
from .prefetch import MAX_ROWS, Prefetch, idle_share, prefetch, prefetch_matrices, prefetches
from .rotary import rotated
from .split_merge import merged, row_length

# Positions in a split. The keys and values of a split fit into the registers of a program, so all
# of them are loaded from memory at once.
SPLIT = 256
# The number of programs that keeps a large GPU busy: several on each of 132 multiprocessors, in
# enough waves that the last, incomplete one takes a small part of the time. More gain nothing.
PROGRAMS = 132 * 16
# Registers of a thread, so that two programs of 256 threads fit on a multiprocessor.
SPLIT_REGISTERS = 128
LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class ContextSplits:
    """Attention of rows to each split of their context, before the merge.

    Attributes:
        sums: float32 [rows, heads, splits, head size], the weighted sums of the values.
        stats: float32 [rows, heads, splits, 2], the greatest score and the sum of the weights.
            Splits beyond a row's context have no values.
        table_of, positions: int32 [rows], see :func:`attend_rows`.
    """

    sums: Tensor
    stats: Tensor
    table_of: Tensor
    positions: Tensor

    @classmethod
    def empty(
        cls,
        given: Tensor,
        heads: int,
        size: int,
        max_positions: int,
        table_of: Tensor,
        positions: Tensor,
    ) -> ContextSplits:
        """Return room for the splits of ``given`` [rows, ...], on its device.

        Args:
            heads, size: query heads, and the head size.
            max_positions: the most positions that a row attends to.
        """
        shape = (len(given), heads, triton.cdiv(max_positions, SPLIT))
        sums = given.new_empty(*shape, size, dtype=torch.float32)
        stats = given.new_empty(*shape, 2, dtype=torch.float32)
        return cls(sums, stats, table_of, positions)

    def merged(self, dtype: torch.dtype) -> Tensor:
        """Return the attention to the whole context, [rows, heads, head size]; zeros for padding.

        ``product_of_splits`` of ``output_product.py`` merges with equal bits.
        """
        rows, heads, splits, size = self.sums.shape
        mixed = self.sums.new_empty(rows, heads, size, dtype=dtype)
        if not rows:
            return mixed
        overlap = overlaps(self.sums)
        launcher(_merge_splits, (rows, heads))(
            self.sums,
            self.stats,
            self.table_of,
            self.positions,
            mixed,
            splits,
            size,
            triton.next_power_of_2(size),
            SPLIT,
            overlap,
            num_warps=1,
            **launch_options(overlap),
        )
        return mixed

    def merged_torch(self, dtype: torch.dtype) -> Tensor:
        """Compute :meth:`merged` in plain torch."""
        lengths = torch.where(self.table_of < 0, 0, self.positions + 1)[:, None, None]
        starts = torch.arange(self.sums.shape[2], device=self.sums.device) * SPLIT
        used = starts < lengths  # [rows, 1, splits]
        scores = self.stats[..., 0].masked_fill(~used, -torch.inf)
        shares = (scores - scores.amax(dim=2, keepdim=True)).exp2().masked_fill(~used, 0.0)
        total = (shares * self.stats[..., 1].masked_fill(~used, 0.0)).sum(dim=2)
        sums = self.sums.masked_fill(~used.unsqueeze(3), 0.0)
        weighted = (shares.unsqueeze(3) * sums).sum(dim=2)
        return (weighted / total.masked_fill(lengths[:, 0] == 0, 1.0).unsqueeze(2)).to(dtype)


def attend_rows(
    query: Tensor,
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    *,
    max_positions: int,
) -> Tensor:
    """Compute causal attention: each row attends to its own position and to all earlier ones.

    Args:
        query: [rows, heads, head size], rotated, contiguous.
        pool: [blocks, layers, 2 (keys, values), kv heads, block size, head size], contiguous, or
            in eight bits, see :mod:`ChatTTS.model.kernels.int8`; the rows' own keys and
            values are in it already.
        layer: index of the layer of ``pool`` to read.
        tables: int32 [sequences, blocks], block tables: physical blocks; contiguous.
        table_of: int32 [rows], which row of ``tables`` belongs to the row; -1 for padding.
        positions: int32 [rows], the position of each row in its sequence. ``positions`` and
            ``table_of`` are read early: the last launch without overlap must not write them, nor
            any launch since; see ``dependent_launch.py``.
        max_positions: an upper bound of the number of positions that a row attends to. It is known
            before the positions are, so the launch can be captured.

    Returns:
        [rows, heads, head size] in the dtype of ``query``; zeros for padding. Sums are computed in
        float32.
    """
    where = tables, table_of, positions
    splits = _attend(query, None, pool, layer, *where, query.shape[1], max_positions)
    return splits.merged(query.dtype)


def attend_new_rows(
    qkv: Tensor,
    rotary: tuple[Tensor, Tensor],
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    *,
    heads: int,
    max_positions: int,
    ahead: Sequence[Tensor] = (),
) -> ContextSplits:
    """Rotate, store and attend in one launch, for rows of different sequences.

    After the merge the bits equal those of :func:`~.rotary.rotate_and_store` and
    :func:`attend_rows`, of which the first needs to be done before the second where a row attends
    to another row of the step.

    Args:
        qkv: [rows, (heads + 2 * kv heads) * head size]: queries, keys, values; contiguous.
        rotary: cosines and sines, each float32 [positions, head size], contiguous.
        pool: see :func:`attend_rows`; receives the rows' own keys and values. The head size is
            even.
        layer, tables, table_of, positions, max_positions: see :func:`attend_rows`. ``tables`` is
            read early as well, and ``rotary``.
        heads: number of query heads.
        ahead: the weights of the next products, contiguous, which idle programs prefetch; see
            ``prefetch.py``.
    """
    where = tables, table_of, positions
    return _attend(qkv, rotary, pool, layer, *where, heads, max_positions, ahead)


def attend_new_rows_torch(
    qkv: Tensor,
    rotary: tuple[Tensor, Tensor],
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    *,
    heads: int,
    max_positions: int,
    ahead: Sequence[Tensor] = (),
) -> ContextSplits:
    """Compute :func:`attend_new_rows` in plain torch, with all of the context in one split.

    Nothing is fetched.
    """
    query = rotate_and_store_torch(qkv, *rotary, positions, tables, table_of, pool, layer, heads)
    where = tables, table_of, positions
    mixed = attend_rows_torch(query.float(), pool, layer, *where, max_positions=max_positions)
    splits = triton.cdiv(max_positions, SPLIT)
    sums = mixed.new_zeros(*mixed.shape[:2], splits, mixed.shape[2])
    stats = mixed.new_zeros(*mixed.shape[:2], splits, 2)
    sums[:, :, 0], stats[:, :, 1:, 0], stats[:, :, 0, 1] = mixed, -torch.inf, 1.0
    return ContextSplits(sums, stats, table_of, positions)


def _attend(
    given: Tensor,
    rotary: tuple[Tensor, Tensor] | None,
    pool: Tensor,
    layer: int,
    tables: Tensor,
    table_of: Tensor,
    positions: Tensor,
    heads: int,
    max_positions: int,
    ahead: Sequence[Tensor] = (),
) -> ContextSplits:
    """Attend to the splits; ``given`` is ``qkv`` with ``rotary``, else rotated queries."""
    rows, (kv_heads, block_size, size) = len(given), head_sizes(pool)
    room = ContextSplits.empty(given, heads, size, max_positions, table_of, positions)
    splits = room.sums.shape[2]
    if rows:
        programs = min(splits, triton.cdiv(PROGRAMS, rows * kv_heads))
        blocks = pool[:, layer]
        width = triton.next_power_of_2(size)
        overlap = overlaps(given)
        fetched = Prefetch.of(given, ahead)
        warps = split_warps(width, pool.dtype)
        launcher(_attend_splits, (rows, kv_heads, programs))(
            given,
            *(rotary or (given, given)),
            blocks,
            tables,
            table_of,
            positions,
            room.sums,
            room.stats,
            *fetched.matrices,
            size**-0.5 * LOG2_E,
            blocks.stride(0),
            tables.stride(0),
            splits,
            heads // kv_heads,
            block_size,
            size,
            width,
            SPLIT,
            rotary is not None,
            programs < splits and prefetches(given),
            overlap,
            *fetched.ends,
            fetched.line,
            MAX_ROWS,
            32 * warps,
            num_warps=warps,
            # The compiler fuses other products and sums with than without ``is_new``.
            enable_fp_fusion=False,
            maxnreg=SPLIT_REGISTERS,
            **launch_options(overlap),
        )
    return room


def split_warps(width: int, dtype: torch.dtype) -> int:
    """Return the warps of a program that attends to a split.

    The order of its sums depends on them.

    Args:
        width: the head size, or the next power of two.
        dtype: of keys and values.
    """
    # Each thread holds 128 bytes of keys and 128 bytes of values, or half as many in eight bits:
    # once these are widened, registers are short.
    return min(max(width * max(dtype.itemsize, 2) // 16, 4), 16)


@triton.jit(do_not_specialize=["table_width", "splits"])
def _attend_splits(
    given: tl.tensor,
    cosines: tl.tensor,
    sines: tl.tensor,
    blocks: tl.tensor,
    tables: tl.tensor,
    table_of: tl.tensor,
    positions: tl.tensor,
    sums: tl.tensor,
    stats: tl.tensor,
    first_ahead: tl.tensor,
    second_ahead: tl.tensor,
    third_ahead: tl.tensor,
    fourth_ahead: tl.tensor,
    scale: tl.tensor,
    block_stride: tl.tensor,
    table_width: tl.tensor,
    splits: tl.tensor,
    group: tl.constexpr,
    block_size: tl.constexpr,
    size: tl.constexpr,
    width: tl.constexpr,
    split_size: tl.constexpr,
    is_new: tl.constexpr,
    prefetches_next: tl.constexpr,
    overlap: tl.constexpr,
    end_of_first: tl.constexpr,
    end_of_second: tl.constexpr,
    end_of_third: tl.constexpr,
    end_of_fourth: tl.constexpr,
    line_bytes: tl.constexpr,
    max_rows: tl.constexpr,
    threads: tl.constexpr,
) -> None:
    """Compute some splits of a row, for the query heads that share a head of keys.

    A split has a greatest score, and each position's weight is two to the power of its score minus
    that. Stored are the sum of the weighted values, the greatest score and the sum of the weights.

    With ``is_new``, ``given`` has queries, keys and values before the rotation. The program of the
    last split then stores the row's own key and value.

    With lines to fetch, the programs without a split fetch them, and the other programs fetch the
    earlier keys and values of their first split. With ``prefetches_next``, a program that has
    several splits fetches the next one while it computes: the memory would rest meanwhile.
    """
    row, kv_head, kv_heads = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    lane, column = tl.arange(0, split_size), tl.arange(0, width)
    inside = column < size
    sequence = tl.load(table_of + row).to(tl.int64)
    length = row_length(table_of, positions, row, row >= 0)
    own = length - 1
    scaled: tl.constexpr = blocks.dtype.element_ty == tl.int8
    of_head: tl.constexpr = block_size * (size + 4 * scaled)
    keys = blocks + kv_head * of_head
    to_values = kv_heads * of_head
    row_heads = row.to(tl.int64) * kv_heads * group
    if is_new:
        row_heads = row.to(tl.int64) * kv_heads * (group + 2)
        mask = inside & (length > 0)
        cosine = tl.load(cosines + own * size + column, mask=mask, other=0.0)
        sine = tl.load(sines + own * size + column, mask=mask, other=0.0)
        own_entry = tables + sequence * table_width + own // block_size
    if end_of_fourth > 0:
        if overlap:
            let_begin()
        used = tl.cdiv(length, split_size)
        if tl.program_id(2) >= used:
            index, count = idle_share(table_of, positions, used, kv_heads, split_size, max_rows)
            prefetch_matrices(
                first_ahead,
                second_ahead,
                third_ahead,
                fourth_ahead,
                end_of_first,
                end_of_second,
                end_of_third,
                end_of_fourth,
                line_bytes,
                index,
                count,
                threads,
            )
        else:
            position = tl.program_id(2) * split_size + lane
            where = keys, to_values, tables + sequence * table_width, position, position < own
            _prefetch_split(*where, block_stride, block_size, size, line_bytes)
    if overlap:
        follow()
    if is_new:
        # Only the program of the last split reads this position, and it waits for its own stores.
        stores = (length > 0) & (own // split_size % tl.num_programs(2) == tl.program_id(2))
        is_stored = inside & stores
        own_block = tl.load(own_entry, mask=length > 0, other=0).to(tl.int64)
        own_head, own_slot = keys + own_block * block_stride, own % block_size
        own_place = own_head + own_slot * size + column
        from_key = given + (row_heads + kv_heads * group + kv_head) * size
        own_key = rotated(from_key, column, cosine, sine, size)
        own_value = tl.load(from_key + kv_heads * size + column, mask=inside, other=0.0)
        if scaled:
            key_peak, value_peak = absmax(own_key, 0), absmax(own_value, 0)
            own_scale = scale_address(own_head, own_slot, block_size, size)
            tl.store(own_scale, scale_of(key_peak), mask=stores)
            own_scale = scale_address(own_head + to_values, own_slot, block_size, size)
            tl.store(own_scale, scale_of(value_peak), mask=stores)
            own_key, own_value = quantize(own_key, key_peak), quantize(own_value, value_peak)
        tl.store(own_place, own_key, mask=is_stored)
        tl.store(own_place + to_values, own_value, mask=is_stored)
        tl.debug_barrier()
    for split in range(tl.program_id(2), tl.cdiv(length, split_size), tl.num_programs(2)):
        position = split * split_size + lane
        known = position < length
        entry = tables + sequence * table_width + position // block_size
        block = tl.load(entry, mask=known, other=0).to(tl.int64)
        slot = position % block_size
        place = (block * block_stride + slot * size)[:, None] + column[None, :]
        there = known[:, None] & inside[None, :]
        key = tl.load(keys + place, mask=there, other=0.0)
        value = tl.load(keys + to_values + place, mask=there, other=0.0)
        if prefetches_next:
            position += tl.num_programs(2) * split_size
            where = keys, to_values, tables + sequence * table_width, position, position < length
            _prefetch_split(*where, block_stride, block_size, size, line_bytes)
        if scaled:
            scales = scale_address(keys + block * block_stride, slot, block_size, size)
            key_scale = tl.load(scales, mask=known, other=0.0)
            scales = scale_address(keys + to_values + block * block_stride, slot, block_size, size)
            value_scale = tl.load(scales, mask=known, other=0.0)
        # Without this barrier the compiler saves registers: it delays most loads until the first
        # ones have been used, and the program then waits for memory several times.
        tl.debug_barrier()
        key, value = key.to(tl.float32), value.to(tl.float32)
        for member in tl.static_range(group):
            head = kv_head * group + member
            own_query = given + (row_heads + head) * size
            if is_new:
                # Read again, since registers are short in the loop.
                cosine = tl.load(cosines + own * size + column, mask=inside, other=0.0)
                sine = tl.load(sines + own * size + column, mask=inside, other=0.0)
                asked = rotated(own_query, column, cosine, sine, size)
            else:
                asked = tl.load(own_query + column, mask=inside, other=0.0)
            asked = asked.to(tl.float32) * scale
            score = tl.sum(key * asked[None, :], axis=1)
            if scaled:
                score = score * key_scale
            score = tl.where(known, score, float("-inf"))
            greatest = tl.max(score, axis=0)
            weight = tl.exp2(score - greatest)
            out = (row * kv_heads * group + head) * splits + split
            share = weight * value_scale if scaled else weight
            mixed = tl.sum(value * share[:, None], axis=0)
            tl.store(sums + out * size + column, mixed, mask=inside)
            tl.store(stats + out * 2, greatest)
            tl.store(stats + out * 2 + 1, tl.sum(weight, axis=0))


@triton.jit
def _prefetch_split(
    keys: tl.tensor,
    to_values: tl.tensor,
    table: tl.tensor,
    position: tl.tensor,
    wanted: tl.tensor,
    block_stride: tl.tensor,
    block_size: tl.constexpr,
    size: tl.constexpr,
    line_bytes: tl.constexpr,
) -> None:
    """Fetch the keys and values of positions into the cache, where ``wanted``.

    Args:
        keys: address of the head's keys in the first block.
        to_values: numbers from the keys of a block to its values.
        table: address of the sequence's block table.
    """
    block = tl.load(table + position // block_size, mask=wanted, other=0).to(tl.int64)
    slot = position % block_size
    place = keys + block * block_stride + slot * size
    bytes_of_one: tl.constexpr = size * keys.dtype.element_ty.primitive_bitwidth // 8
    for begin in tl.static_range(0, bytes_of_one, line_bytes):
        prefetch(place.to(tl.int64) + begin, wanted)
        prefetch((place + to_values).to(tl.int64) + begin, wanted)
    if keys.dtype.element_ty == tl.int8:
        scales = scale_address(keys + block * block_stride, slot, block_size, size).to(tl.int64)
        prefetch(scales, wanted)
        prefetch(scales + to_values, wanted)


@triton.jit(do_not_specialize=["splits"])
def _merge_splits(
    sums: tl.tensor,
    stats: tl.tensor,
    table_of: tl.tensor,
    positions: tl.tensor,
    mixed: tl.tensor,
    splits: tl.tensor,
    size: tl.constexpr,
    width: tl.constexpr,
    split_size: tl.constexpr,
    overlap: tl.constexpr,
) -> None:
    """Merge the splits of one head of one row, in order."""
    row = tl.program_id(0)
    head = row * tl.num_programs(1) + tl.program_id(1)
    column = tl.arange(0, width)
    used = tl.cdiv(row_length(table_of, positions, row, row >= 0), split_size)
    if overlap:
        follow()
    found = merged(sums, stats, head, used, used, column, splits, size)
    tl.store(mixed + head * size + column, found.to(mixed.dtype.element_ty), mask=column < size)
