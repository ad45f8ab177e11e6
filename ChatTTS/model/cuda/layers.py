"""The layers of a Llama on Triton kernels, over paged keys and values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear

from ...errors import ConfigError
from ..llama_config import LlamaShape
from ..llama_weights import LayerWeights
from .kernels.attention import attend_rows
from .kernels.norm import rms_norm
from .kernels.prefill import attend_chunks
from .kernels.products import product
from .kernels.rotary import rotate_and_store
from .kernels.swiglu import swiglu

# Up to so many rows a product is as fast as its weights are read, which the kernel of this package
# does with the norm and the addition in the same launch. Beyond, the library's tiles win.
SKINNY_ROWS = 32
_LARGEST_HEAD = 128


@dataclass(frozen=True)
class LayerMatrices:
    """One layer. Matrices are [outputs, inputs]: ``qkv`` stacks queries, keys and values,
    ``gate_up`` the two halves of the gated MLP."""

    qkv: Tensor
    out: Tensor
    gate_up: Tensor
    down: Tensor
    attention_norm: Tensor
    mlp_norm: Tensor

    @classmethod
    def fuse(cls, layer: LayerWeights) -> LayerMatrices:
        """The same weights, the gated MLP's halves in one matrix."""
        return cls(
            qkv=layer.qkv,
            out=layer.out,
            gate_up=torch.cat([layer.gate, layer.up]),
            down=layer.down,
            attention_norm=layer.attention_norm,
            mlp_norm=layer.mlp_norm,
        )


@dataclass(frozen=True)
class AttentionMetadata:
    """Where the rows of a step stand; on the device, contiguous.

    Attributes:
        positions: int32 [rows], in the sequence.
        tables: int32 [sequences, blocks], physical blocks.
        table_of: int32 [rows], the row of ``tables``; -1 for padding.
        most: no position is as high as this.
        tiles: int32 [tiles, 3] of :func:`~.kernels.prefill.tiles_of`, where prompts are to be
            computed in tiles; ``None`` for every row by itself.
    """

    positions: Tensor
    tables: Tensor
    table_of: Tensor
    most: int
    tiles: Tensor | None = None


class Product(Protocol):
    """A product of rows and weights; see :func:`~.kernels.products.product`."""

    def __call__(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        norm: tuple[Tensor, float] | None = None,
        residual: Tensor | None = None,
        gated: bool = False,
    ) -> Tensor: ...


def library_product(
    x: Tensor,
    weight: Tensor,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
) -> Tensor:
    """The same by torch's own product, for many rows."""
    if norm is not None:
        x = rms_norm(x, *norm)
    if gated:
        return swiglu(linear(x, weight))
    if residual is not None:
        return torch.addmm(residual, x, weight.T, out=residual)
    return linear(x, weight)


def check_shape(shape: LlamaShape) -> None:
    """Refuse sizes that the kernels do not know.

    Raises:
        ConfigError: the heads are too large for them.
    """
    if shape.head_dim > _LARGEST_HEAD:
        raise ConfigError(
            f"the CUDA kernels know attention heads of at most {_LARGEST_HEAD}, not "
            f"{shape.head_dim}; load without use_vllm and experimental"
        )


class TritonLayers:
    """A Llama (Touvron et al. 2023) without its embeddings and its final norm.

    A layer of a decode step of few rows is seven launches: norm and qkv, rotary embedding and the
    way into the blocks, attention's splits, their merge, the output projection with the residual,
    norm and gated MLP, and the way down with the residual. With more rows, and in float32, the two
    norms are launches of their own.

    Args:
        shape: sizes and constants.
        layers: on the device, in the dtype to compute in.
        rotary: cosines and sines, each float32 [positions, head size], on the device.
        row_independent: no bit of a row depends on the other rows of the step, nor on how a
            prompt was cut.
    """

    def __init__(
        self,
        shape: LlamaShape,
        layers: Iterable[LayerMatrices],
        rotary: tuple[Tensor, Tensor],
        *,
        row_independent: bool,
    ) -> None:
        self._shape = shape
        self._layers = tuple(layers)
        self._rotary = rotary
        self._is_row_independent = row_independent

    def __call__(self, x: Tensor, rows: AttentionMetadata, pool: Tensor) -> Tensor:
        """Move rows through all layers; their keys and values are written into the pool.

        Args:
            x: [rows, hidden], the embedded rows; overwritten.
            pool: [blocks, layers, 2, kv heads, block size, head size].

        Returns:
            ``x``, before the final norm.
        """
        eps = self._shape.rms_norm_eps
        heads = self._shape.num_attention_heads
        multiply = self.product_for(len(x))
        for index, layer in enumerate(self._layers):
            qkv = multiply(x, layer.qkv, norm=(layer.attention_norm, eps))
            query = rotate_and_store(
                qkv, *self._rotary, rows.positions, rows.tables, rows.table_of, pool, index, heads
            )
            mixed = self._attend(query, rows, pool, index)
            multiply(mixed.flatten(1), layer.out, residual=x)
            gated = multiply(x, layer.gate_up, norm=(layer.mlp_norm, eps), gated=True)
            multiply(gated, layer.down, residual=x)
        return x

    def product_for(self, rows: int) -> Product:
        """The way to multiply so many rows."""
        return product if self._is_row_independent or rows <= SKINNY_ROWS else library_product

    def _attend(self, query: Tensor, rows: AttentionMetadata, pool: Tensor, layer: int) -> Tensor:
        if rows.tiles is not None and not self._is_row_independent:
            return attend_chunks(query, pool, layer, rows.tables, rows.positions, rows.tiles)
        return attend_rows(
            query, pool, layer, rows.tables, rows.table_of, rows.positions, most=rows.most
        )
