"""Matrices with adapters in torch: the reference for the kernels.

No bit of a row depends on the rows beside it, since the narrow products are computed in tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ....lora.adapter import LowRank
from .linear import Matrix, TiledMatrix, activation

# The rows of each adapter, int64 [n], by its number.
RowsOf = Mapping[int, Tensor]
# Both narrow matrices of each adapter, down and up, by its number.
Narrow = Mapping[int, tuple[TiledMatrix, TiledMatrix]]


def narrow_matrices(
    given: Iterable[LowRank | None], device: torch.device, dtype: torch.dtype
) -> Narrow:
    """Return what adapters add to a matrix, given that of each adapter."""
    return {
        number: (_tiled(low.down.to(device, dtype)), _tiled(low.up.to(device, dtype)))
        for number, low in enumerate(given)
        if low is not None
    }


def _tiled(part: Tensor) -> TiledMatrix:
    return TiledMatrix(part.contiguous(), len(part))


@dataclass(frozen=True)
class AdaptedMatrix:
    """A matrix, and what adapters add to it."""

    matrix: Matrix
    narrow: Narrow

    def __call__(self, x: Tensor, rows_of: RowsOf, *, activated: bool = False) -> Tensor:
        """Return the product [rows, outputs] of ``x`` [rows, inputs], or SiLU of it.

        With SiLU, rows that an adapter changes are computed anew. What the others have may come
        from one operator, and keeps its bits.
        """
        out = self.matrix.activated(x) if activated else self.matrix(x)
        for number, rows in rows_of.items():
            if (narrow := self.narrow.get(number)) is not None:
                down, up = narrow
                added = up(down(x[rows]))
                whole = (self.matrix(x[rows]) if activated else out[rows]) + added
                out[rows] = activation(whole) if activated else whole
        return out


@dataclass(frozen=True)
class GatedMatrix:
    """The gated half of an MLP."""

    gate: AdaptedMatrix
    up: AdaptedMatrix

    def __call__(self, x: Tensor, rows_of: RowsOf) -> Tensor:
        """Return silu(gate) * up of ``x`` [rows, inputs]."""
        return self.gate(x, rows_of, activated=True).mul_(self.up(x, rows_of))
