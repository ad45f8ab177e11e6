"""Adapters as the CPU kernels read them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from ....kernels.cpu import library
from ....kernels.cpu.library import address
from ....llama.config import MATRICES, LlamaShape
from ....lora.adapter import Adapter, LowRank


class PackedAdapters:
    """All adapters of a Llama.

    Args:
        panel: outputs of a panel of weights.

    Attributes:
        products: ``NativeLowRank`` of each adapter, layer and matrix, in this order. The memory
            that they point to lives as long as this object.
        max_rank: the highest rank of any of them.
    """

    def __init__(self, adapters: Sequence[Adapter], shape: LlamaShape, panel: int) -> None:
        self._panel = panel
        self._held: list[Tensor] = []
        made = [
            self._packed(adapter.fused(shape, layer, matrix))
            for adapter in adapters
            for layer in range(shape.num_hidden_layers)
            for matrix in MATRICES
        ]
        self.products = (library.NativeLowRank * len(made))(*made)
        self.max_rank = max((product.rank for product in made), default=0)

    def _packed(self, product: LowRank | None) -> library.NativeLowRank:
        if product is None:
            return library.NativeLowRank()
        outputs, rank = product.up.shape
        spans = torch.tensor(
            [_span(row) for row in product.up.t()], dtype=torch.int32, device="cpu"
        )
        whole = pad(product.up, (0, 0, 0, -outputs % self._panel))
        up = whole.unflatten(0, (-1, self._panel)).transpose(1, 2).contiguous()
        down = product.down.contiguous()
        self._held += [up, down, spans]
        return library.NativeLowRank(
            down=address(down), up=address(up), spans=address(spans), rank=rank
        )


def _span(row: Tensor) -> tuple[int, int]:
    """Return where the numbers of a row that are not 0 begin and end."""
    places = row.nonzero()
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
