"""The interface of attention back ends."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from ..batch import InputBatch


class Attention(Protocol):
    """Attention of a step's rows, each over its sequence's positions up to its own."""

    def new_pool(self, num_blocks: int) -> Tensor:
        """Return memory for blocks; the first dimension counts them."""
        ...

    @property
    def block_bytes(self) -> int:
        """The size of a block in bytes."""
        ...

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, pool: Tensor, layer: int, batch: InputBatch
    ) -> Tensor:
        """Write the rows' keys and values into their blocks, then attend.

        Args:
            query: [rows, heads, head size], rotated.
            key, value: [rows, kv heads, head size], keys rotated.
            pool: from :meth:`new_pool`.
            layer: index of the layer.
            batch: positions and block tables.

        Returns:
            [rows, heads, head size].
        """
        ...
