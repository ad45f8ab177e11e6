"""Attention over paged keys and values in plain torch: the reference, on any device.

Every row is computed by itself from the blocks of its sequence. That is slow and simple, and
the result depends neither on the other rows of the step nor on how a prompt was cut into chunks.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

from ....llama.config import LlamaShape
from ...input_batch import AttentionProbe, InputBatch


class Attention(Protocol):
    """Attention over blocks that it lays out itself."""

    def new_pool(self, num_blocks: int) -> Tensor:
        """Return memory for blocks; the first dimension counts them."""
        ...

    @property
    def block_bytes(self) -> int:
        """The size of a block in bytes."""
        ...

    def plan(self, batch: InputBatch, pool: Tensor) -> Any:
        """Return what is the same in all layers of a step."""
        ...

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, pool: Tensor, layer: int, plan: Any
    ) -> Tensor:
        """Write the rows' keys and values into their blocks, then attend up to each row.

        Args:
            query: [rows, heads, head size], rotated.
            key, value: [rows, kv heads, head size], keys rotated.
            pool: from :meth:`new_pool`.
            layer: index of the layer.
            plan: of the step, from :meth:`plan`.

        Returns:
            [rows, heads, head size].
        """
        ...


class TorchBlocks:
    """Blocks of [layers, 2 (keys, values), kv heads, positions, head size], as torch reads them.

    Args:
        shape: sizes; of a rank, those of its layers and heads (see ``Shard.local``).
    """

    def __init__(
        self, shape: LlamaShape, block_size: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._heads, self._kv_heads = shape.num_attention_heads, shape.num_key_value_heads
        self._size = shape.head_dim
        self._block_size = block_size
        self._block_shape = shape.block_shape(block_size)
        self._dtype, self._device = dtype, device

    def new_pool(self, num_blocks: int) -> Tensor:
        """Return memory for blocks; the first dimension counts them."""
        return torch.empty(num_blocks, *self._block_shape, dtype=self._dtype, device=self._device)

    @property
    def block_bytes(self) -> int:
        """The size of a block in bytes."""
        return torch.Size(self._block_shape).numel() * self._dtype.itemsize


class TorchAttention(TorchBlocks):
    """Attention over such blocks, row by row; see :class:`Attention`."""

    def plan(self, batch: InputBatch, pool: Tensor) -> InputBatch:
        """Return the batch: every layer looks up its positions and block tables."""
        return batch

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, pool: Tensor, layer: int, plan: InputBatch
    ) -> Tensor:
        """See :class:`Attention`."""
        batch = plan
        blocks = pool[:, layer]
        tables = torch.from_numpy(batch.tables).long()
        positions = torch.from_numpy(batch.positions).long()
        table_of = torch.from_numpy(batch.table_of).long()
        physical = tables[table_of, positions // self._block_size].to(pool.device)
        slots = (positions % self._block_size).to(pool.device)
        blocks[physical, 0, :, slots] = key.to(self._dtype)
        blocks[physical, 1, :, slots] = value.to(self._dtype)
        out = torch.empty_like(query)
        for row, (table, length) in enumerate(
            zip(table_of.tolist(), (positions + 1).tolist(), strict=True)
        ):
            used = tables[table, : -(-length // self._block_size)].to(pool.device)
            # [blocks, 2, heads, positions, size] to [2, heads, length, size]
            held = blocks[used].permute(1, 2, 0, 3, 4).flatten(2, 3)[:, :, :length]
            weights = self._weights(query[row], held[0])
            out[row] = self._mixed(weights, held[1]).to(query.dtype)
            if batch.probe is not None:
                note_attention(batch.probe, row, layer, weights.flatten(0, 1))
        return out

    def _weights(self, query: Tensor, keys: Tensor) -> Tensor:
        """Return the probabilities [kv heads, groups, length] of one query [heads, size].

        Args:
            keys: [kv heads, length, size].
        """
        grouped = query.view(self._kv_heads, -1, self._size).float() * self._size**-0.5
        weights: Tensor = (grouped @ keys.float().transpose(1, 2)).softmax(dim=-1)
        return weights

    def _mixed(self, weights: Tensor, values: Tensor) -> Tensor:
        """Return the weighted ``values`` [kv heads, length, size] as [heads, size]."""
        mixed: Tensor = weights @ values.float()
        return mixed.flatten(0, 1)


def note_attention(probe: AttentionProbe, row: int, layer: int, weights: Tensor) -> None:
    """Write the wanted attention of a row in one layer into the probe.

    Args:
        weights: the row's probabilities in that layer, [heads, positions or more].
    """
    for entry in range(probe.first[row], probe.first[row + 1]):
        if probe.layers[entry] == layer:
            columns, start = int(probe.columns[entry]), int(probe.starts[entry])
            chosen = weights[int(probe.heads[entry]), :columns]
            probe.out[start : start + columns] = chosen.cpu().numpy()
