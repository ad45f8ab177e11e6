"""Adapters on transformers' Llama: each row of a batch has its own, or none."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..llama.config import module_of
from ..lora.adapter import Adapter
from ..lora.names import Adapters


class _Rows(threading.local):
    """The rows of each adapter in this thread's step, int64 [n] by the adapter's name."""

    def __init__(self) -> None:
        self.by_name: Mapping[str, Tensor] = {}


class AdaptedLinear(nn.Module):
    """A linear layer to which adapters add their products, for the rows that have them.

    Args:
        plain: the layer.
        products: both narrow matrices by the adapter's name, [rank, inputs] and [outputs, rank].
        rows: of the step.
    """

    def __init__(
        self, plain: nn.Module, products: Mapping[str, tuple[Tensor, Tensor]], rows: _Rows
    ) -> None:
        super().__init__()
        self.plain = plain
        self._products, self._rows = products, rows

    def forward(self, x: Tensor) -> Tensor:
        """Return [rows, positions, outputs] of ``x`` [rows, positions, inputs]."""
        out: Tensor = self.plain(x)
        for name, rows in self._rows.by_name.items():
            if name in self._products:
                down, up = self._products[name]
                out[rows] += linear(linear(x[rows], down), up)
        return out


class LlamaAdapters:
    """The adapters of a ``LlamaModel``, whose projections this replaces.

    Args:
        model: on its device and in its dtype.
        adapters: those that requests may name.

    Attributes:
        infos: what is known of them, by their names.
    """

    def __init__(self, model: Any, adapters: Sequence[Adapter]) -> None:
        self._rows = _Rows()
        self.infos: Adapters = {adapter.name: adapter.info for adapter in adapters}
        for layer, projection in sorted({key for a in adapters for key in a.products}):
            parent = getattr(model.layers[layer], module_of(projection))
            plain = getattr(parent, projection)
            weight = plain.weight
            products = {
                adapter.name: (own.down.to(weight), own.up.to(weight))
                for adapter in adapters
                if (own := adapter.products.get((layer, projection))) is not None
            }
            setattr(parent, projection, AdaptedLinear(plain, products, self._rows))

    @contextmanager
    def of(self, names: Sequence[str | None], device: torch.device) -> Iterator[None]:
        """Give the rows of this thread's steps in the block their adapters.

        Args:
            names: of each row's adapter, or ``None``.
        """
        self._rows.by_name = {
            name: torch.tensor([i for i, own in enumerate(names) if own == name], device=device)
            for name in dict.fromkeys(names)
            if name is not None
        }
        try:
            yield
        finally:
            self._rows.by_name = {}
