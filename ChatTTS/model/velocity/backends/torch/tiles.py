"""Products with torch in which no bit of a row depends on the number of rows, or of ranks.

Products are computed in tiles of a fixed number of rows, and of the outputs of one piece (see
``llama/shard.py``). So neither the library's choice of an algorithm nor a bit of a row depends on
the rows beside it. This asks little of a library; ``linear.py`` has faster products for where a
check finds them as good.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear, pad

# MKL multiplies weights by few columns fastest.
TILE = 4
GPU_TILE = 16
# Libraries add in another order where vectors do not begin at such an address.
_ALIGNMENT = 64


def aligned(weight: Tensor) -> Tensor:
    """Return a matrix, or a vector, each row of which begins at an aligned address; on a CPU."""
    if weight.is_cuda or weight.ndim < 2:
        return weight
    step = weight.stride(0) * weight.itemsize
    if weight.stride(1) == 1 and step % _ALIGNMENT == weight.data_ptr() % _ALIGNMENT == 0:
        return weight
    return _room(len(weight), weight).copy_(weight)


def _room(rows: int, like: Tensor) -> Tensor:
    """Return memory for rows of the width of ``like`` [..., width], each aligned."""
    width = like.shape[1]
    spare = -width % (_ALIGNMENT // like.itemsize)
    return like.new_empty(rows, width + spare)[:, :width]


def tiled(rows: Tensor, weight: Tensor, piece: int | None = None) -> Tensor:
    """Multiply ``rows`` [n, inputs] by ``weight`` [outputs, inputs], in products of one shape.

    Args:
        weight: from :func:`aligned`.
        piece: outputs of a product; the last product may have fewer. By default one has all. On a
            GPU one always has all, since each piece would be a launch.
    """
    if weight.is_cuda:
        padded = pad(rows, (0, 0, 0, -len(rows) % GPU_TILE))
        tiles = [linear(tile, weight) for tile in torch.split(padded, GPU_TILE)]
        return torch.cat(tiles)[: len(rows)]
    padded = _room(len(rows) + -len(rows) % TILE, rows)
    padded[: len(rows)] = rows
    padded[len(rows) :] = 0
    out = rows.new_empty(len(padded), len(weight))
    for tile, place in zip(torch.split(padded, TILE), torch.split(out, TILE), strict=True):
        place.copy_(_in_pieces(tile.t(), weight, piece or len(weight)).t())
    return out[: len(rows)]


def _in_pieces(columns: Tensor, weight: Tensor, piece: int) -> Tensor:
    """Return ``weight`` times ``columns`` [inputs, TILE], in one call for pieces of one size."""
    whole = len(weight) - len(weight) % piece
    parts = [weight[:whole].unflatten(0, (-1, piece)), weight[whole:].unsqueeze(0)]
    return torch.cat([_batched(part, columns) for part in parts if part.numel()])


def _batched(pieces: Tensor, columns: Tensor) -> Tensor:
    """Multiply each of ``pieces`` [n, outputs, inputs]; return [n * outputs, TILE]."""
    count = len(pieces)
    # A batch of one may be multiplied by another algorithm than one of several.
    batch = pieces if count > 1 else pieces.expand(2, -1, -1)
    products = torch.bmm(batch, columns.expand(len(batch), -1, -1))
    return products[:count].flatten(0, 1)
