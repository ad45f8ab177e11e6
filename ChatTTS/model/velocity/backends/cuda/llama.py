"""The Llama on Triton kernels: it computes rows, and keeps their keys and values in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ....cuda.failures import on_host
from ....embed import Embed
from ....kernels.cuda.attention import attend_new_rows
from ....kernels.cuda.embedding import embed_rows
from ....kernels.cuda.low_rank import LowRanks
from ....kernels.cuda.norm import rms_norm
from ....kernels.cuda.output_product import product_of_splits
from ....kernels.cuda.prefill import attend_chunks, tiles_of
from ....kernels.cuda.prompt_attention import attend_prompts
from ....kernels.cuda.rotary import rotate_and_store
from ....kernels.cuda.text_attention import attend_text
from ....llama.config import LlamaShape
from ....llama.shard import Peers, Shard
from ....llama.weights import LayerWeights
from ....lora.adapter import Adapter
from ...input_batch import InputBatch
from .linear import LayerMatrices, library_product, product_for, reduced
from .lora import NO_ADAPTERS, pack_adapters


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


class TritonLlama:
    """See :class:`~ChatTTS.model.velocity.loaded_model.LlamaModel`.

    Blocks are [layers, 2 (keys, values), kv heads, positions, head size], in the dtype of the
    weights.

    In a decode step of few rows, a layer takes five launches: norm and qkv product; rotary
    embedding, storing keys and values, and attention over the splits; their merge, output
    projection and residual; norm and gate and up projections; down projection and residual. With
    more rows, and in float32, the merge and each of the two norms are separate launches, as
    ``output_product.py`` and ``products.py`` choose. In a step of rows with adapters the merge is a
    separate launch as well, and another launch before each product takes these rows to the ranks of
    their adapters.

    With few rows, attention also fetches the weights of the layer's other products and of the next
    layer's first one; see ``kernels/cuda/ahead.py``. Behind the last layer is the first one, which
    the next step begins with.

    Args:
        shape: sizes and constants; ``why_no_kernels`` tells which ones the kernels take.
        layers: on the device, in the dtype to compute in.
        final_norm: [hidden], on that device and in that dtype.
        embed: embeds the rows; on that device and in that dtype. ``None`` if the caller does.
        rotary: cosines and sines, each float32 [positions, head size].
        block_size: positions of a block.
        batch_invariant: no bit of a row depends on the other rows of the step, nor on how a prompt
            was cut into chunks.
        shard, peers: the rank, and how it reaches the others; by default it is the only one.
        adapters: those that rows may have; none if there are several ranks.

    Attributes:
        has_adapters: whether rows may have any.
        takes_tiles: whether prompts need ``AttentionMetadata.tiles``.
    """

    gives_attention = False  # recorded steps call `attend_text`

    def __init__(
        self,
        shape: LlamaShape,
        layers: Iterable[LayerWeights],
        final_norm: Tensor,
        embed: Embed | None,
        rotary: tuple[Tensor, Tensor],
        block_size: int,
        *,
        batch_invariant: bool,
        shard: Shard | None = None,
        peers: Peers | None = None,
        adapters: Sequence[Adapter] = (),
    ) -> None:
        self._shape, self._embed, self._final_norm = shape, embed, final_norm
        self._device, self._dtype = final_norm.device, final_norm.dtype
        self._shard = shard or Shard(shape)
        self._peers = None if self._shard.ranks == 1 else peers
        self._block_shape = self._shard.local.block_shape(block_size)
        self._layers = tuple(map(LayerMatrices.fuse, layers))
        self._adapters = tuple(pack_adapters(adapters, shape, self._device))
        cosines, sines = (table.to(self._device).contiguous() for table in rotary)
        self._rotary = cosines, sines
        self._batch_invariant = batch_invariant
        self.has_adapters = bool(adapters)
        self.takes_tiles = not batch_invariant

    def new_pool(self, num_blocks: int) -> Tensor:
        return torch.empty(num_blocks, *self._block_shape, dtype=self._dtype, device=self._device)

    @property
    def block_bytes(self) -> int:
        return torch.Size(self._block_shape).numel() * self._dtype.itemsize

    def new_rows(self, rows: int) -> Tensor:
        return self._final_norm.new_empty(rows, self._shape.hidden_size)

    @torch.inference_mode()
    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        rows = AttentionMetadata(
            positions=self._put(batch.positions),
            tables=self._put(batch.tables),
            table_of=self._put(batch.table_of),
            max_positions=int(batch.positions.max()) + 1,
            is_decode=False,
            tiles=self._put(tiles_of(batch.table_of)) if self.takes_tiles else None,
        )
        inputs = (self._put(each) for each in (batch.kinds, batch.ids, batch.vectors))
        x = self.embedded(*inputs) if batch.given is None else batch.given.contiguous()
        adapter_of = None if batch.adapter_of is None else self._put(batch.adapter_of)
        x = self.apply_layers(x, rows, pool, adapter_of=adapter_of)
        if not self._shard.is_last:
            return x
        return on_host(self._normed(x[self._put(batch.draws)]))

    def embedded(self, kinds: Tensor, ids: Tensor, vectors: Tensor) -> Tensor:
        """Return embedded rows [rows, hidden].

        Args:
            kinds, ids, vectors: see :class:`~ChatTTS.model.velocity.input_batch.InputBatch`; on the
                device.
        """
        assert self._embed is not None
        return embed_rows(kinds, ids, vectors, self._embed.text.weight, self._embed.code.weight)

    def hiddens(
        self,
        x: Tensor,
        rows: AttentionMetadata,
        pool: Tensor,
        kept: Tensor | None = None,
        adapter_of: Tensor | None = None,
    ) -> Tensor:
        """Return the hidden states of rows after the final norm; see :meth:`apply_layers`."""
        return self._normed(self.apply_layers(x, rows, pool, kept, adapter_of))

    def apply_layers(
        self,
        x: Tensor,
        rows: AttentionMetadata,
        pool: Tensor,
        kept: Tensor | None = None,
        adapter_of: Tensor | None = None,
    ) -> Tensor:
        """Apply all layers to the rows, and write their keys and values into the pool.

        The host does not wait for the device.

        Args:
            x: [rows, hidden], the embedded rows; overwritten.
            rows: position and block table of each row.
            pool: the KV cache's blocks.
            kept: receives what :meth:`attend_text` needs; see :meth:`new_kept`.
            adapter_of: int32 [rows], contiguous, the number of each row's adapter, or -1; ``None``
                if no row has one.

        Returns:
            ``x``, which holds the hidden states before the final norm.
        """
        eps, shard = self._shape.rms_norm_eps, self._shard
        multiply = product_for(len(x), batch_invariant=self._batch_invariant)
        for index, layer in enumerate(self._layers):
            low = NO_ADAPTERS if adapter_of is None else self._adapters[index]
            norm = layer.attention_norm, eps
            ranks = reduced(x, low.qkv, adapter_of, norm)
            out = None if kept is None else kept[index, : len(x)]
            qkv = multiply(x, layer.qkv, norm=norm, out=out, ranks=ranks)
            columns = shard.query_columns()
            if not rows.is_decode:
                mixed = self._attend(qkv, rows, pool, index).flatten(1)
                self._add(mixed, columns, layer.out, x, low.out, adapter_of)
            else:
                following = self._layers[(index + 1) % len(self._layers)]
                splits = attend_new_rows(
                    qkv,
                    self._rotary,
                    pool,
                    index,
                    rows.tables,
                    rows.table_of,
                    rows.positions,
                    heads=len(shard.heads),
                    max_positions=rows.max_positions,
                    ahead=(layer.out, layer.gate_up, layer.down, following.qkv),
                )
                if low.out is None and self._peers is None and multiply is not library_product:
                    product_of_splits(splits, layer.out, x)
                else:
                    mixed = splits.merged(layer.out.dtype).flatten(1)
                    self._add(mixed, columns, layer.out, x, low.out, adapter_of)
            norm = layer.mlp_norm, eps
            ranks = reduced(x, low.gate_up, adapter_of, norm)
            gated = multiply(x, layer.gate_up, norm=norm, gated=True, ranks=ranks)
            columns = shard.columns(self._shape.intermediate_size)
            self._add(gated, columns, layer.down, x, low.down, adapter_of)
        return x

    def _attend(self, qkv: Tensor, rows: AttentionMetadata, pool: Tensor, layer: int) -> Tensor:
        """Store all keys and values of the step first: rows attend to other rows of it.

        Tiles of tensor cores round otherwise than a decode step does.
        """
        tables, table_of, positions = rows.tables, rows.table_of, rows.positions
        query = rotate_and_store(
            qkv, *self._rotary, positions, tables, table_of, pool, layer, len(self._shard.heads)
        )
        if self.takes_tiles:
            assert rows.tiles is not None
            return attend_chunks(query, pool, layer, tables, positions, rows.tiles)
        return attend_prompts(
            query, pool, layer, tables, table_of, positions, max_positions=rows.max_positions
        )

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
            inputs: the rank's columns of the rows.
            columns: how many columns each rank of the stage has.
            weight: of the rank's outputs.
            low, adapter_of: what adapters add to the product, and the adapter of each row.
        """
        multiply = product_for(len(x), batch_invariant=self._batch_invariant)
        if self._peers is None:
            multiply(inputs, weight, residual=x, ranks=reduced(inputs, low, adapter_of))
            return
        inputs = self._peers.gather(inputs, columns)
        outputs, hidden = self._shard.outputs(x.shape[1]), self._shard.columns(x.shape[1])
        part = x[:, outputs.start : outputs.stop].contiguous()
        x.copy_(self._peers.gather(multiply(inputs, weight, residual=part), hidden))

    def _normed(self, x: Tensor) -> Tensor:
        return rms_norm(x, self._final_norm, self._shape.rms_norm_eps)

    def new_kept(self, rows: int) -> Tensor:
        """Return memory for the queries, keys and values of a step's rows, before the rotation.

        It is [layers, rows, (heads + 2 * kv heads) * head size].
        """
        layers, pairs, kv_heads, _, size = self._block_shape
        width = (self._shape.num_attention_heads + pairs * kv_heads) * size
        return torch.zeros(layers, rows, width, dtype=self._dtype, device=self._device)

    def attend_text(
        self, entries: Tensor, kept: Tensor, rows: AttentionMetadata, pool: Tensor, found: Tensor
    ) -> None:
        """Compute the attention of some heads in the last step.

        Args:
            entries, found: see :func:`~ChatTTS.model.kernels.cuda.text_attention.attend_text`.
            kept: what that step kept.
            rows: of that step; their positions are now one further.
            pool: the KV cache's blocks.
        """
        where = rows.tables, rows.table_of, rows.positions
        attend_text(entries, kept, self._rotary, pool, *where, found)

    def _put(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)
