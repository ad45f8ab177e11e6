"""The layers of a Llama on Triton kernels, over paged keys and values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear

from .....errors import ConfigError
from ....kernels.cuda.attention import attend_new_rows
from ....kernels.cuda.low_rank import LowRanks, RowRanks, to_ranks
from ....kernels.cuda.norm import rms_norm
from ....kernels.cuda.output_product import product_of_splits
from ....kernels.cuda.prefill import attend_chunks
from ....kernels.cuda.products import product
from ....kernels.cuda.prompt_attention import attend_prompts
from ....kernels.cuda.rotary import rotate_and_store
from ....kernels.cuda.swiglu import swiglu
from ....llama.config import LlamaShape
from ....llama.shard import Peers, Shard
from ....llama.weights import LayerWeights
from .lora import NO_ADAPTERS, LayerAdapters

# With at most this many rows, reading the weights limits a product's speed. This package's kernel
# then also does the norm and the addition in one launch. With more rows, torch's product is faster.
SKINNY_ROWS = 32
_LARGEST_HEAD = 128


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


@dataclass(frozen=True)
class AttentionMetadata:
    """The position and the block table of every row of a step; contiguous, on the device.

    Attributes:
        positions: int32 [rows], the position of each row in its sequence.
        tables: int32 [sequences, blocks], block tables: the physical blocks of each sequence.
        table_of: int32 [rows], which row of ``tables`` belongs to the row; -1 for padding.
        most: an upper bound: every position is below it.
        tiles: int32 [tiles, 3] from :func:`~.kernels.prefill.tiles_of`, for steps with prompts;
            ``None`` if every row belongs to another sequence.
    """

    positions: Tensor
    tables: Tensor
    table_of: Tensor
    most: int
    tiles: Tensor | None = None


class Product(Protocol):
    """A product of rows and weights, as :func:`~.kernels.products.product` describes it."""

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
    """Compute :func:`~.kernels.products.product` with torch's matrix product, for many rows.

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


class TritonLayers:
    """A Llama (Touvron et al. 2023) without its embeddings and its final norm.

    In a decode step of few rows, a layer takes five launches: norm and qkv product; rotary
    embedding, storing keys and values, and attention over the splits; their merge, output
    projection and residual; norm and gate and up projections; down projection and residual. With
    more than 16 rows the merge is a launch of its own; with more than 64, and in float32, each of
    the two norms. In a step of rows with adapters the merge is a launch of its own, too, and
    another one before each product takes these rows to the ranks of their adapters.

    With few rows, attention also fetches the weights of the layer's other products and of the next
    layer's first one; see ``kernels/cuda/ahead.py``. Behind the last layer is the first one, which
    the next step begins with.

    Args:
        shape: sizes and constants.
        layers: the layers' weights on the device, in the dtype to compute in.
        rotary: cosines and sines, each float32 [positions, head size].
        row_independent: whether every bit of a row's result must be independent of the other rows
            of the step, and of how a prompt was cut into chunks.
        shard, peers: the rank, and how it reaches the others; by default it is the only one.
        adapters: those of each layer; none if there are several ranks.

    Attributes:
        rotary: these tables, on the device.

    Raises:
        ConfigError: the attention heads are too large for the kernels.
    """

    def __init__(
        self,
        shape: LlamaShape,
        layers: Iterable[LayerWeights],
        rotary: tuple[Tensor, Tensor],
        *,
        row_independent: bool,
        shard: Shard | None = None,
        peers: Peers | None = None,
        adapters: Sequence[LayerAdapters] = (),
    ) -> None:
        if shape.head_dim > _LARGEST_HEAD:
            raise ConfigError(
                f"the CUDA kernels support attention heads of size {_LARGEST_HEAD} at most, not "
                f"{shape.head_dim}; load without use_vllm and experimental"
            )
        self._shape = shape
        self._shard = shard or Shard(shape)
        self._peers = None if self._shard.ranks == 1 else peers
        self._layers = tuple(map(LayerMatrices.fuse, layers))
        device = self._layers[0].qkv.device
        cosines, sines = (table.to(device).contiguous() for table in rotary)
        self.rotary = cosines, sines
        self._is_row_independent = row_independent
        self._adapters = tuple(adapters)

    def __call__(
        self,
        x: Tensor,
        rows: AttentionMetadata,
        pool: Tensor,
        kept: Tensor | None = None,
        adapter_of: Tensor | None = None,
    ) -> Tensor:
        """Apply all layers to the rows, and write their keys and values into the pool.

        Args:
            x: [rows, hidden], the embedded rows; overwritten.
            rows: position and block table of each row.
            pool: [blocks, layers, 2, kv heads, block size, head size].
            kept: [layers, at least as many rows, (heads + 2 * kv heads) * head size], contiguous;
                receives the queries, keys and values of each layer before the rotation.
            adapter_of: int32 [rows], contiguous, the number of each row's adapter, or -1; ``None``
                if no row has one.

        Returns:
            ``x``, which holds the hidden states before the final norm.
        """
        eps = self._shape.rms_norm_eps
        heads = len(self._shard.heads)
        multiply = self.product_for(len(x))
        for index, layer in enumerate(self._layers):
            low = NO_ADAPTERS if adapter_of is None else self._adapters[index]
            own = None if kept is None else kept[index, : len(x)]
            norm = layer.attention_norm, eps
            ranks = _reduced(x, low.qkv, adapter_of, norm)
            qkv = multiply(x, layer.qkv, norm=norm, out=own, ranks=ranks)
            columns = self._shard.query_columns()
            if rows.tiles is None:
                where = rows.tables, rows.table_of, rows.positions
                following = self._layers[(index + 1) % len(self._layers)]
                splits = attend_new_rows(
                    qkv,
                    self.rotary,
                    pool,
                    index,
                    *where,
                    heads=heads,
                    most=rows.most,
                    ahead=(layer.out, layer.gate_up, layer.down, following.qkv),
                )
                if low.out is None and self._peers is None and multiply is product:
                    product_of_splits(splits, layer.out, x)
                else:
                    mixed = splits.merged(layer.out.dtype).flatten(1)
                    self._add(mixed, columns, layer.out, x, low.out, adapter_of)
            else:
                mixed = self._attend(qkv, rows, rows.tiles, pool, index).flatten(1)
                self._add(mixed, columns, layer.out, x, low.out, adapter_of)
            norm = layer.mlp_norm, eps
            ranks = _reduced(x, low.gate_up, adapter_of, norm)
            gated = multiply(x, layer.gate_up, norm=norm, gated=True, ranks=ranks)
            columns = self._shard.columns(self._shape.intermediate_size)
            self._add(gated, columns, layer.down, x, low.down, adapter_of)
        return x

    def product_for(self, rows: int) -> Product:
        """Return the product to use for this number of rows."""
        return product if self._is_row_independent or rows <= SKINNY_ROWS else library_product

    def _attend(
        self, qkv: Tensor, rows: AttentionMetadata, tiles: Tensor, pool: Tensor, layer: int
    ) -> Tensor:
        """Store all keys and values of the step first: rows attend to other rows of it.

        Tiles of tensor cores round otherwise than a decode step does.
        """
        tables, table_of, positions = rows.tables, rows.table_of, rows.positions
        heads = len(self._shard.heads)
        query = rotate_and_store(qkv, *self.rotary, positions, tables, table_of, pool, layer, heads)
        if self._is_row_independent:
            return attend_prompts(query, pool, layer, tables, table_of, positions, most=rows.most)
        return attend_chunks(query, pool, layer, tables, positions, tiles)

    def _add(
        self,
        inputs: Tensor,
        columns: list[int],
        weight: Tensor,
        x: Tensor,
        low: LowRanks | None,
        adapter_of: Tensor | None,
    ) -> None:
        """Add the product of ``inputs`` and ``weight`` to ``x``.

        Args:
            inputs: the rank's own columns of the rows.
            columns: how many columns each rank of the stage has.
            weight: of the rank's own outputs.
            low, adapter_of: what adapters add to the product, and the adapter of each row.
        """
        multiply = self.product_for(len(x))
        if self._peers is None:
            multiply(inputs, weight, residual=x, ranks=_reduced(inputs, low, adapter_of))
            return
        inputs = self._peers.gather(inputs, columns)
        own, hidden = self._shard.outputs(x.shape[1]), self._shard.columns(x.shape[1])
        part = x[:, own.start : own.stop].contiguous()
        x.copy_(self._peers.gather(multiply(inputs, weight, residual=part), hidden))


def _reduced(
    x: Tensor,
    low: LowRanks | None,
    adapter_of: Tensor | None,
    norm: tuple[Tensor, float] | None = None,
) -> RowRanks | None:
    """Return rows at the ranks of their adapters, if any adapter adds to their product."""
    if low is None or adapter_of is None:
        return None
    return to_ranks(x, low, adapter_of, norm=norm)
