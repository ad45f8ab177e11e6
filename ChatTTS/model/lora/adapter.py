"""Adapters: low-rank additions to the matrices of the Llama (LoRA, Hu et al. 2021), as plain data.

An adapter changes the language model for the requests that name it, and for no others. Many of them
fit beside one set of weights. ``model/lora/reader.py`` reads their files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ..llama.config import MATRICES, LlamaShape, projections
from .names import AdapterInfo


@dataclass(frozen=True, eq=False)
class LowRank:
    """A product of two narrow matrices that is added to a matrix [outputs, inputs].

    Attributes:
        down: float32 [rank, inputs].
        up: float32 [outputs, rank], with the adapter's scale.
    """

    down: Tensor
    up: Tensor

    @property
    def rank(self) -> int:
        """The width between the two."""
        return len(self.down)

    def whole(self) -> Tensor:
        """Return what is added to the matrix, float32 [outputs, inputs]."""
        return self.up @ self.down


@dataclass(frozen=True, eq=False)
class Adapter:
    """One adapter; equal only to itself.

    Attributes:
        name: as requests name it.
        products: by the number of the layer and the name of the projection, such as ``q_proj``.
        speaker: the speaker string that it was trained with, if it says so.
    """

    name: str
    products: Mapping[tuple[int, str], LowRank]
    speaker: str | None = None

    def fused(self, shape: LlamaShape, layer: int, matrix: str) -> LowRank | None:
        """Return what is added to a fused matrix of the engine; ``None`` if that is nothing.

        The products of stacked projections stand side by side in one.

        Args:
            matrix: one of ``MATRICES``.
        """
        parts = MATRICES[matrix]
        own = {part: p for part in parts if (p := self.products.get((layer, part))) is not None}
        if not own:
            return None
        if len(parts) == 1:
            return own[parts[0]]
        sizes = projections(shape)
        up = torch.zeros(sum(sizes[part][0] for part in parts), sum(p.rank for p in own.values()))
        row = column = 0
        for part in parts:
            if part in own:
                product = own[part]
                rows = slice(row, row + len(product.up))
                up[rows, column : column + product.rank] = product.up
                column += product.rank
            row += sizes[part][0]
        return LowRank(torch.cat([product.down for product in own.values()]), up)

    @cached_property
    def info(self) -> AdapterInfo:
        """Its speaker and its digest."""
        digest = hashlib.sha256(repr(self.speaker).encode("utf-8"))
        for key, product in sorted(self.products.items(), key=lambda item: item[0]):
            digest.update(repr((key, product.rank)).encode("ascii"))
            for part in (product.down, product.up):
                digest.update(part.contiguous().numpy().tobytes())
        return AdapterInfo(self.speaker, digest.hexdigest())
