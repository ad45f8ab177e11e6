"""The Llama of the engine on Triton kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ....cuda.failures import on_host
from ....embed import Embed
from ....kernels.cuda.embedding import embed_rows
from ....kernels.cuda.norm import rms_norm
from ....kernels.cuda.prefill import tiles_of
from ....kernels.cuda.text_attention import attend_text
from ....llama.config import LlamaShape
from ....llama.shard import Peers, Shard
from ....llama.weights import LayerWeights
from ....lora.adapter import Adapter
from ...input_batch import InputBatch
from .layers import AttentionMetadata, TritonLayers
from .lora import pack_adapters


class TritonLlama:
    """See :class:`~ChatTTS.model.velocity.backends.torch.llama.LlamaModel`.

    Blocks are [layers, 2 (keys, values), kv heads, positions, head size], in the dtype of the
    weights.

    Args:
        shape: sizes and constants.
        layers: on the device, in the dtype to compute in.
        final_norm: [hidden], on that device and in that dtype.
        embed: embeds the rows; on that device and in that dtype.
        rotary: cosines and sines, each float32 [positions, head size].
        block_size: positions of a block.
        batch_invariant: no bit of a row depends on the other rows.
        shard, peers: the rank, and how it reaches the others; by default it is the only one.
        adapters: those that rows may have; none if there are several ranks.

    Attributes:
        gives_attention: a rank of several does not.
        has_adapters: whether rows may have any.

    Raises:
        ConfigError: the attention heads are too large for the kernels.
    """

    def __init__(
        self,
        shape: LlamaShape,
        layers: Iterable[LayerWeights],
        final_norm: Tensor,
        embed: Embed,
        rotary: tuple[Tensor, Tensor],
        block_size: int,
        *,
        batch_invariant: bool,
        shard: Shard | None = None,
        peers: Peers | None = None,
        adapters: Sequence[Adapter] = (),
    ) -> None:
        self._shape = shape
        self.has_adapters = bool(adapters)
        self._shard = shard or Shard(shape)
        self.gives_attention = self._shard.ranks == self._shard.stages == 1
        self._device, self._dtype = final_norm.device, final_norm.dtype
        self._block_shape = self._shard.local.block_shape(block_size)
        self._layers = TritonLayers(
            shape,
            layers,
            rotary,
            row_independent=batch_invariant,
            shard=shard,
            peers=peers,
            adapters=tuple(pack_adapters(adapters, shape, self._device)),
        )
        self._final_norm = final_norm
        self._embed = embed

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
            most=int(batch.positions.max()) + 1,
            tiles=self._put(tiles_of(batch.table_of)),
        )
        inputs = (self._put(each) for each in (batch.kinds, batch.ids, batch.vectors))
        x = self._embedded(*inputs) if batch.given is None else batch.given.contiguous()
        adapter_of = None if batch.adapter_of is None else self._put(batch.adapter_of)
        x = self._layers(x, rows, pool, adapter_of=adapter_of)
        if not self._shard.is_last:
            return x
        return on_host(self._drawn(x[self._put(batch.draws)]))

    def hiddens(
        self,
        kinds: Tensor,
        ids: Tensor,
        vectors: Tensor,
        rows: AttentionMetadata,
        pool: Tensor,
        draws: Tensor | None = None,
        kept: Tensor | None = None,
        adapter_of: Tensor | None = None,
    ) -> Tensor:
        """Return the hidden states of rows after the final norm, on the device.

        The host does not wait for the device.

        Args:
            kinds, ids, vectors: see :class:`~ChatTTS.model.velocity.input_batch.InputBatch`.
            rows: positions and block tables.
            pool: the KV cache's blocks.
            draws: int [n], the rows whose states are wanted; ``None`` for all.
            kept: receives what :meth:`attend_text` needs; see :meth:`new_kept`.
            adapter_of: int32 [rows], the number of each row's adapter, or -1; ``None`` if no row
                has one.
        """
        x = self._layers(self._embedded(kinds, ids, vectors), rows, pool, kept, adapter_of)
        return self._drawn(x if draws is None else x[draws])

    def _embedded(self, kinds: Tensor, ids: Tensor, vectors: Tensor) -> Tensor:
        return embed_rows(kinds, ids, vectors, self._embed.text.weight, self._embed.code.weight)

    def _drawn(self, x: Tensor) -> Tensor:
        return rms_norm(x, self._final_norm, self._shape.rms_norm_eps)

    def new_kept(self, rows: int) -> Tensor:
        """Return memory for the queries, keys and values of a step's rows, in all layers."""
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
            rows: of that step; the positions are those behind the rows' own.
            pool: the KV cache's blocks.
        """
        where = rows.tables, rows.table_of, rows.positions
        attend_text(entries, kept, self._layers.rotary, pool, *where, found)

    def _put(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self._device)
