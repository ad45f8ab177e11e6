"""The operations of a Llama on Triton kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from ....embed import Embed
from ....kernels.cuda.attention import ContextSplits, attend_new_rows
from ....kernels.cuda.embedding import embed_rows
from ....kernels.cuda.low_rank import LowRanks, to_ranks
from ....kernels.cuda.norm import rms_norm
from ....kernels.cuda.output_product import product_of_splits
from ....kernels.cuda.prefill import attend_chunks, tiles_of
from ....kernels.cuda.products import product
from ....kernels.cuda.prompt_attention import attend_prompts
from ....kernels.cuda.rotary import rotate_and_store
from ....kernels.cuda.swiglu import swiglu
from ....kernels.cuda.text_attention import attend_text
from ....kernels.int8 import quantize_weights
from ....llama.config import LlamaShape
from ....llama.rotary import rotary_tables
from ....llama.shard import Shard
from ....llama.weights import LayerWeights
from ....lora.adapter import Adapter
from ...input_batch import InputBatch
from ...layers import LayerMatrices
from .lora import pack_adapters

# With at most this many rows, reading the weights limits a product's speed. This package's kernel
# then also does the norm and the addition in one launch. With more rows, torch's product is faster.
SKINNY_ROWS = 32


@dataclass(frozen=True)
class TritonMatrix:
    """A matrix [outputs, inputs], contiguous.

    Attributes:
        scales: float32 [outputs], of weights in eight bits, or ``None``.
        low: what adapters add to it, or ``None``.
        gated: it stacks a gate and the matrix that the gate is for.
    """

    weight: Tensor
    scales: Tensor | None
    low: LowRanks | None
    gated: bool = False


@dataclass(frozen=True)
class AttentionMetadata:
    """The position and the block table of every row of a step; contiguous, on the device.

    Attributes:
        positions: int32 [rows], the position of each row in its sequence.
        tables: int32 [sequences, blocks], block tables: the physical blocks of each sequence.
        table_of: int32 [rows], which row of ``tables`` belongs to the row; -1 for padding.
        max_positions: every position is below it.
        is_decode: every row belongs to another sequence. Otherwise rows may attend to other rows of
            the step.
        tiles: int32 [tiles, 3] from :func:`~ChatTTS.model.kernels.cuda.prefill.tiles_of`, for
            prompts of a Llama that takes tiles.
    """

    positions: Tensor
    tables: Tensor
    table_of: Tensor
    max_positions: int
    is_decode: bool
    tiles: Tensor | None = None


class TritonOperations:
    """See :class:`~ChatTTS.model.velocity.layers.Operations`. The host never waits for the device.

    In a decode step of few rows, a layer takes five launches: norm and qkv product; rotary
    embedding, storing keys and values, and attention over the splits; their merge, output
    projection and residual; norm and gate and up projections; down projection and residual. With
    more rows, and in float32, the merge and each of the two norms are separate launches, as
    ``output_product.py`` and ``products.py`` choose. In a step of rows with adapters the merge is a
    separate launch as well, and another launch before each product takes these rows to the ranks of
    their adapters.

    With few rows, attention also prefetches the weights of the layer's other products and of the
    next layer's first one; see ``kernels/cuda/prefetch.py``. Behind the last layer is the first
    one, which the next step begins with.

    Args:
        shape: ``why_no_kernels`` tells which ones the kernels take.
        embed: embeds the rows; on the device.
        batch_invariant: no bit of a row depends on the other rows of the step, nor on how a prompt
            was cut into chunks.
        shard: the rank; by default it is the only one.
        adapters: those that rows may have; none if there are several ranks.
        int8_cache: keep keys and values in eight bits; the head size is a multiple of 4.
        int8_weights: keep matrices in eight bits, with a scale for each output.

    Attributes:
        batch_invariant: as given.
        has_adapters: whether rows may have any.
        takes_tiles: whether prompts need ``AttentionMetadata.tiles``.
    """

    gives_attention = False  # captured steps call `attend_text`

    def __init__(
        self,
        shape: LlamaShape,
        embed: Embed,
        device: torch.device,
        *,
        batch_invariant: bool,
        shard: Shard | None = None,
        adapters: Sequence[Adapter] = (),
        int8_cache: bool = False,
        int8_weights: bool = False,
    ) -> None:
        self.int8_cache, self.int8_weights = int8_cache, int8_weights
        self.shape, self.shard, self.device = shape, shard or Shard(shape), device
        cosines, sines = (table.to(device).contiguous() for table in rotary_tables(shape))
        self._embed, self._rotary = embed, (cosines, sines)
        self.batch_invariant, self._adapters = batch_invariant, adapters
        self.has_adapters, self.takes_tiles = bool(adapters), not batch_invariant

    def pack(self, index: int, layer: LayerWeights) -> LayerMatrices:
        def matrix(name: str, weight: Tensor, *, gated: bool = False) -> TritonMatrix:
            low = pack_adapters(self._adapters, self.shape, index, name, self.device)
            if self.int8_weights:
                return TritonMatrix(*quantize_weights(weight), low, gated)
            return TritonMatrix(weight, None, low, gated)

        return LayerMatrices(
            qkv=matrix("qkv", layer.qkv),
            out=matrix("out", layer.out),
            gate_up=matrix("gate_up", torch.cat([layer.gate, layer.up]), gated=True),
            down=matrix("down", layer.down),
        )

    def metadata(self, batch: InputBatch, pool: Tensor) -> AttentionMetadata:
        given = batch.positions, batch.tables, batch.table_of
        positions, tables, table_of = (torch.from_numpy(each).to(self.device) for each in given)
        tiles = None
        if self.takes_tiles:
            tiles = torch.from_numpy(tiles_of(batch.table_of)).to(self.device)
        most = int(batch.positions.max()) + 1
        return AttentionMetadata(positions, tables, table_of, most, is_decode=False, tiles=tiles)

    def adapters(self, batch: InputBatch) -> Tensor | None:
        """Return the number of each row's adapter, or -1; int32 [rows], contiguous."""
        of = batch.adapter_of
        return None if of is None else torch.from_numpy(of).to(self.device)

    def embed(
        self, kinds: Tensor, ids: Tensor, vectors: Tensor, slots: Tensor | None = None
    ) -> Tensor:
        tables = self._embed.text.weight, self._embed.code.weight
        return embed_rows(kinds, ids, vectors, *tables, slots)

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return rms_norm(x, weight, eps)

    def product(
        self,
        x: Tensor | ContextSplits,
        matrix: TritonMatrix,
        adapters: Tensor | None,
        *,
        norm: tuple[Tensor, float] | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        weight, scales = matrix.weight, matrix.scales
        low = None if adapters is None else matrix.low
        if isinstance(x, ContextSplits):
            assert residual is not None  # splits are for the output projection alone
            if low is None and self._takes_kernel(len(x.sums)):
                return product_of_splits(x, weight, residual, scales)
            x = x.merged(residual.dtype).flatten(1)
        ranks = None
        if low is not None and adapters is not None:
            ranks = to_ranks(x, low, adapters, norm=norm)
        gated = matrix.gated
        if ranks is None and not self._takes_kernel(len(x)):
            return library_product(x, weight, norm=norm, residual=residual, gated=gated, out=out)
        return product(
            x,
            weight,
            norm=norm,
            residual=residual,
            gated=gated,
            out=out,
            ranks=ranks,
            scales=scales,
        )

    def _takes_kernel(self, rows: int) -> bool:
        return self.batch_invariant or self.int8_weights or rows <= SKINNY_ROWS

    def attend(
        self,
        qkv: Tensor,
        rows: AttentionMetadata,
        pool: Tensor,
        layer: int,
        ahead: Sequence[TritonMatrix],
    ) -> Tensor | ContextSplits:
        tables, table_of, positions = rows.tables, rows.table_of, rows.positions
        where, most = (tables, table_of, positions), rows.max_positions
        heads = len(self.shard.heads)
        if rows.is_decode:
            given = qkv, self._rotary, pool, layer, *where
            weights = [matrix.weight for matrix in ahead]
            splits = attend_new_rows(*given, heads=heads, max_positions=most, ahead=weights)
            return splits if self.shard.ranks == 1 else splits.merged(qkv.dtype).flatten(1)
        # All keys and values of the step are stored first: rows attend to other rows of it.
        turned = *self._rotary, positions, tables, table_of
        query = rotate_and_store(qkv, *turned, pool, layer, heads)
        if self.takes_tiles:  # tiles of tensor cores round otherwise than a decode step does
            assert rows.tiles is not None
            return attend_chunks(query, pool, layer, tables, positions, rows.tiles).flatten(1)
        return attend_prompts(query, pool, layer, *where, max_positions=most).flatten(1)

    def attend_text(
        self, entries: Tensor, kept: Tensor, rows: AttentionMetadata, pool: Tensor, found: Tensor
    ) -> None:
        """Compute the attention of some heads in the last step.

        Args:
            entries, found: see :func:`~ChatTTS.model.kernels.cuda.text_attention.attend_text`.
            kept: what :meth:`~ChatTTS.model.velocity.layers.Llama.apply_layers` kept of that step.
            rows: of that step; their positions are now one further.
            pool: the KV cache's blocks.
        """
        where = rows.tables, rows.table_of, rows.positions
        attend_text(entries, kept, self._rotary, pool, *where, found)


def library_product(
    x: Tensor,
    weight: Tensor,
    *,
    norm: tuple[Tensor, float] | None = None,
    residual: Tensor | None = None,
    gated: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Multiply many rows by torch's matrix product, as :func:`product` does without adapters."""
    if norm is not None:
        x = rms_norm(x, *norm)
    if gated:
        return swiglu(linear(x, weight))
    if residual is not None:
        return torch.addmm(residual, x, weight.T, out=residual)
    return linear(x, weight) if out is None else torch.mm(x, weight.T, out=out)
