"""The matrices of a layer, and the two ways to multiply rows with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear

from ....kernels.cuda.low_rank import LowRanks, RowRanks, to_ranks
from ....kernels.cuda.norm import rms_norm
from ....kernels.cuda.products import product
from ....kernels.cuda.swiglu import swiglu
from ....llama.weights import LayerWeights

# With at most this many rows, reading the weights limits a product's speed. This package's kernel
# then also does the norm and the addition in one launch. With more rows, torch's product is faster.
SKINNY_ROWS = 32


@dataclass(frozen=True)
class LayerMatrices:
    """The weights of one layer. Matrices are [outputs, inputs]: ``qkv`` stacks queries, keys and
    values, ``gate_up`` the two halves of the gated MLP."""

    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor
    attention_norm: Tensor
    mlp_norm: Tensor

    @classmethod
    def fuse(cls, layer: LayerWeights) -> LayerMatrices:
        """Return the layer's weights with the gated MLP's halves in one matrix."""
        return cls(
            qkv=layer.qkv,
            out=layer.out,
            gate_up=torch.cat([layer.gate, layer.up]),
            down=layer.down,
            attention_norm=layer.attention_norm,
            mlp_norm=layer.mlp_norm,
        )


class Product(Protocol):
    """A product of rows and weights; see :func:`~ChatTTS.model.kernels.cuda.products.product`."""

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        norm: tuple[Tensor, float] | None = None,
        residual: Tensor | None = None,
        gated: bool = False,
        out: Tensor | None = None,
        ranks: RowRanks | None = None,
    ) -> Tensor: ...


def library_product(
    x: Tensor,
    weight: Tensor,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    out: Tensor | None = None,
    ranks: RowRanks | None = None,
) -> Tensor:
    """Multiply many rows by torch's matrix product; see :class:`Product`.

    Products that adapters add to are left to the kernels.
    """
    if ranks is not None:
        return product(x, weight, norm=norm, residual=residual, gated=gated, out=out, ranks=ranks)
    if norm is not None:
        x = rms_norm(x, *norm)
    if gated:
        return swiglu(linear(x, weight))
    if residual is not None:
        return torch.addmm(residual, x, weight.T, out=residual)
    return linear(x, weight) if out is None else torch.mm(x, weight.T, out=out)


def product_for(rows: int, *, batch_invariant: bool) -> Product:
    """Return the product to use for this number of rows.

    Args:
        batch_invariant: no bit of a row may depend on the other rows.
    """
    return product if batch_invariant or rows <= SKINNY_ROWS else library_product


def reduced(
    x: Tensor,
    low: LowRanks | None,
    adapter_of: Tensor | None,
    norm: tuple[Tensor, float] | None = None,
) -> RowRanks | None:
    """Return rows at the ranks of their adapters, if any adapter adds to their product."""
    if low is None or adapter_of is None:
        return None
    return to_ranks(x, low, adapter_of, norm=norm)
