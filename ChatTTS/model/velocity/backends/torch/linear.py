"""The matrices of the Llama where torch computes, and the choice of how they are multiplied with.

oneDNN, which comes with torch, multiplies weights that were packed once two to four times as fast
as torch's own operator. Whether a row's bits depend there on the rows beside it is a property of
the processor, of the library and of the shapes. So it is checked for the shapes of the model
(row_checks.py); where it holds, these products are taken, and products in tiles where not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, silu

from .tiles import aligned, tiled

# Torch computes an element-wise function on whole vectors, and on the few numbers behind the last
# vector in another way. Chunks of this size consist of whole vectors on every processor, and torch
# does not divide one among threads.
_CHUNK = 1 << 12
# The numbers of rows that oneDNN multiplies at once; others are padded to the next one. A number
# costs some milliseconds of compiling, and each was checked.
SIZES = (2, 4, 8, 12, 16, 24, 32, 48, 64)
# For how many rows oneDNN packs weights; it multiplies fewer and more of them as well.
_PACKED_FOR = 16
_ONEDNN: Any = torch.ops.mkldnn


class Matrix(Protocol):
    """A matrix [outputs, inputs] of a Llama, without bias."""

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply ``rows`` [n, inputs] by the transposed matrix: [n, outputs]."""
        ...

    def activated(self, rows: Tensor) -> Tensor:
        """Return SiLU of the product, [n, outputs]."""
        ...


# Makes a matrix of weights [outputs, inputs], which in the shard of a rank has pieces of this many
# outputs (see llama/shard.py).
MatrixMaker = Callable[[Tensor, int], Matrix]


class WholeMatrix:
    """A matrix as it is, multiplied by torch's operator."""

    def __init__(self, weight: Tensor, piece: int) -> None:
        self._weight = weight

    def __call__(self, rows: Tensor) -> Tensor:
        return linear(rows, self._weight)

    def activated(self, rows: Tensor) -> Tensor:
        return silu(self(rows))


class TiledMatrix:
    """A matrix that is multiplied in tiles: no bit of a row depends on the other rows."""

    def __init__(self, weight: Tensor, piece: int) -> None:
        self._weight, self._piece = aligned(weight), piece

    def __call__(self, rows: Tensor) -> Tensor:
        return tiled(rows, self._weight, self._piece)

    def activated(self, rows: Tensor) -> Tensor:
        return activation(self(rows))


class PackedMatrix:
    """A matrix in oneDNN's order; on a CPU."""

    def __init__(self, weight: Tensor, piece: int) -> None:
        self._outputs = len(weight)
        if self._outputs:  # a rank may have none of a small matrix, and oneDNN packs no empty one
            self._packed = _ONEDNN._reorder_linear_weight(weight.contiguous(), _PACKED_FOR)

    def __call__(self, rows: Tensor) -> Tensor:
        return self._product(rows, "none")

    def activated(self, rows: Tensor) -> Tensor:
        return self._product(rows, "swish")

    def _product(self, rows: Tensor, function: str) -> Tensor:
        most = SIZES[-1]
        if len(rows) <= most:
            return self._few(rows, function)
        return torch.cat([self._few(part, function) for part in torch.split(rows, most)])

    def _few(self, rows: Tensor, function: str) -> Tensor:
        count = len(rows)
        if not count or not self._outputs:
            return rows.new_empty(count, self._outputs)
        size = next(size for size in SIZES if size >= count)
        padded = rows.contiguous() if size == count else pad(rows, (0, 0, 0, size - count))
        out: Tensor = _ONEDNN._linear_pointwise(padded, self._packed, None, function, [], "")
        return out[:count]


class MatrixLinear(nn.Module):
    """A linear layer without bias on a matrix."""

    def __init__(self, matrix: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._matrix = matrix

    def forward(self, rows: Tensor) -> Tensor:
        return self._matrix(rows)


def activation(x: Tensor) -> Tensor:
    """Return SiLU of ``x``; no result depends on the place of its number."""
    return silu(x) if x.is_cuda else in_chunks(silu, x)


def in_chunks(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply an element-wise function; no result depends on the place of its number in ``x``."""
    flat = pad(x.flatten(), (0, -x.numel() % _CHUNK))
    parts = [function(part) for part in torch.split(flat, _CHUNK)]
    return (parts[0] if len(parts) == 1 else torch.cat(parts))[: x.numel()].view_as(x)
