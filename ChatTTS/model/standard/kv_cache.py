"""A KV cache that grows in place.

transformers' own ``DynamicCache`` copies its whole contents at every step, to append one position.
This one writes into buffers with spare room, which double when they are full. So the cost of a step
depends on what it appends.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

_SPARE = 256  # spare positions after the prompt at the start


class GrowingCache(DynamicCache):  # type: ignore[misc, unused-ignore]  # it has no types here
    """Keys and values of every layer, [B, heads, room, head size], of which a part is filled."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._filled: list[int] = []

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        layer_idx: int,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor]:
        """Append [B, heads, n, head size] to a layer; return all keys and values of the layer."""
        if layer_idx == len(self._filled):
            room = key_states.shape[2] + _SPARE
            self._keys.append(_with_room(key_states[:, :, :0], room))
            self._values.append(_with_room(value_states[:, :, :0], room))
            self._filled.append(0)
        start = self._filled[layer_idx]
        end = start + key_states.shape[2]
        for buffers, new in ((self._keys, key_states), (self._values, value_states)):
            if end > buffers[layer_idx].shape[2]:
                buffers[layer_idx] = _with_room(buffers[layer_idx][:, :, :start], 2 * end)
            buffers[layer_idx][:, :, start:end] = new
        self._filled[layer_idx] = end
        return self._keys[layer_idx][:, :, :end], self._values[layer_idx][:, :, :end]

    def get_seq_length(self, layer_idx: int = 0, *args: Any) -> int:
        """Return the number of positions that a layer holds."""
        return self._filled[layer_idx] if layer_idx < len(self._filled) else 0

    def get_mask_sizes(self, query: int | Tensor, layer_idx: int = 0) -> tuple[int, int]:
        """Return how many positions a mask must cover, and the first of them.

        Args:
            query: the number of new positions, or (in some releases) their indices.
        """
        new = query if isinstance(query, int) else query.shape[0]
        return self.get_seq_length(layer_idx) + new, 0

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these rows of the batch."""
        for buffers in (self._keys, self._values):
            buffers[:] = [buffer.index_select(0, indices) for buffer in buffers]


def _with_room(filled: Tensor, room: int) -> Tensor:
    """Copy ``filled`` [B, heads, n, head size] into a new buffer of ``room`` positions."""
    batch, heads, length, size = filled.shape
    buffer = torch.empty(batch, heads, room, size, dtype=filled.dtype, device=filled.device)
    buffer[:, :, :length] = filled
    return buffer
