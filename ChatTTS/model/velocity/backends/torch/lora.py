"""Adapters in the plain torch Llama: the reference for the kernels.

No bit of a row depends on the rows beside it, since the narrow products are computed in tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....llama.config import MATRICES, LlamaShape
from ....lora.adapter import Adapter
from ...input_batch import InputBatch
from .linear import Matrix, TiledMatrix, activation


class TorchAdapters:
    """All adapters of a Llama.

    Args:
        device, dtype: those of its matrices.
    """

    def __init__(
        self,
        adapters: Sequence[Adapter],
        shape: LlamaShape,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self._products: dict[tuple[int, int, str], tuple[TiledMatrix, TiledMatrix]] = {}
        for number, adapter in enumerate(adapters):
            for layer in range(shape.num_hidden_layers):
                for matrix in MATRICES:
                    if (product := adapter.fused(shape, layer, matrix)) is not None:
                        down, up = (
                            TiledMatrix(part.to(device, dtype).contiguous(), len(part))
                            for part in (product.down, product.up)
                        )
                        self._products[number, layer, matrix] = down, up

    def of(self, batch: InputBatch, device: torch.device) -> StepAdapters:
        """Return the adapters of a step's rows."""
        adapter_of = batch.adapter_of
        rows = {}
        if adapter_of is not None:
            for number in sorted(set(adapter_of.tolist()) - {-1}):
                is_of = torch.from_numpy(adapter_of == number)
                rows[number] = is_of.nonzero().squeeze(1).to(device)
        return StepAdapters(self._products, rows)


class StepAdapters:
    """The adapters of the rows of one step.

    Args:
        products: both narrow matrices by adapter, layer and matrix.
        rows: of each adapter, int64 [n].
    """

    def __init__(
        self,
        products: dict[tuple[int, int, str], tuple[TiledMatrix, TiledMatrix]],
        rows: dict[int, Tensor],
    ) -> None:
        self._products, self._rows = products, rows

    def add(self, out: Tensor, x: Tensor, layer: int, matrix: str) -> Tensor:
        """Return ``out`` [rows, outputs] with what the adapters add for ``x`` [rows, inputs]."""
        for number, rows in self._rows.items():
            if (product := self._products.get((number, layer, matrix))) is not None:
                down, up = product
                out[rows] += up(down(x[rows]))
        return out

    def activate(self, gated: Tensor, gate: Matrix, x: Tensor, layer: int) -> Tensor:
        """Return ``gated``, SiLU of the product with ``gate``, with what adapters change.

        Their rows are computed anew. What the others have may come from one operator, and keeps its
        bits.
        """
        for number, rows in self._rows.items():
            if (product := self._products.get((number, layer, "gate"))) is not None:
                down, up = product
                gated[rows] = activation(gate(x[rows]) + up(down(x[rows])))
        return gated
