"""Attention over paged keys and values in plain torch: the reference, on any device.

Every row is computed by itself from the blocks of its sequence. That is slow and simple, and
the result depends neither on the other rows of the step nor on how a prompt was cut into chunks.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from ....kernels.torch_references import attend_rows_torch, store_torch
from ...input_batch import AttentionProbe, InputBatch


class Attention(Protocol):
    """Attention over blocks of [layers, 2 (keys, values), kv heads, positions, head size]."""

    def plan(self, batch: InputBatch, pool: Tensor) -> Any:
        """Return what is the same in all layers of a step."""
        ...

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, pool: Tensor, layer: int, plan: Any
    ) -> Tensor:
        """Write the rows' keys and values into their blocks, then attend up to each row.

        Queries, keys, values and what is returned are [rows, heads, head size]; queries and keys
        are rotated.
        """
        ...


class TorchAttention:
    """Attention row by row, on any device; see :class:`Attention`."""

    def plan(self, batch: InputBatch, pool: Tensor) -> tuple[AttentionProbe | None, list[Tensor]]:
        """Return the probe, and where the rows are: all layers look it up on the host."""
        where = batch.tables, batch.table_of, batch.positions
        return batch.probe, [torch.from_numpy(each) for each in where]

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, pool: Tensor, layer: int, plan: Any
    ) -> Tensor:
        """See :class:`Attention`."""
        probe, where = plan
        store_torch(key, value, pool, layer, *where)
        note = None if probe is None else partial(note_attention, probe, layer)
        most = where[0].shape[1] * pool.shape[4]
        attend = partial(attend_rows_torch, max_positions=most, scale=1.0, note=note)
        scaled = query.float() * query.shape[-1] ** -0.5
        return attend(scaled, pool, layer, *where).to(query.dtype)


def note_attention(probe: AttentionProbe, layer: int, row: int, weights: Tensor) -> None:
    """Write the wanted attention of a row in one layer into the probe.

    Args:
        weights: the row's probabilities in that layer, [heads, positions or more].
    """
    for entry in range(probe.first[row], probe.first[row + 1]):
        if probe.layers[entry] == layer:
            columns, start = int(probe.columns[entry]), int(probe.starts[entry])
            chosen = weights[int(probe.heads[entry]), :columns]
            probe.out[start : start + columns] = chosen.cpu().numpy()
