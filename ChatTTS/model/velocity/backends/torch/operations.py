"""The operations of a Llama in torch: the reference, and the fallback where no kernel can run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....embed import Embed
from ....kernels.torch_references import embed_rows_torch, rms_norm_torch
from ....llama.config import LlamaShape
from ....llama.rotary import rotary_tables, rotate
from ....llama.shard import Shard
from ....llama.weights import LayerWeights
from ....lora.adapter import Adapter
from ...input_batch import InputBatch
from ...layers import LayerMatrices
from .attention import Attention
from .linear import MatrixMaker
from .lora import AdaptedMatrix, GatedMatrix, RowsOf, narrow_matrices

# The angles of a step's rows, cosines and sines [rows, 1, head size], and what the attention plans.
Metadata = tuple[Tensor, Tensor, Any]


class TorchOperations:
    """See :class:`~ChatTTS.model.velocity.layers.Operations`.

    No bit of a row depends on the other rows or on the number of ranks, if that holds for the
    products and for the attention.

    Args:
        embed: embeds the rows; on the device, in the dtype to compute in.
        attention: attends over the blocks.
        make_matrix: makes what rows are multiplied with.
        shard: the rank; by default it is the only one.
        adapters: those that rows may have; none if there are several ranks.
    """

    gives_attention, int8_cache, int8_weights = True, False, False

    def __init__(
        self,
        shape: LlamaShape,
        embed: Embed,
        attention: Attention,
        make_matrix: MatrixMaker,
        *,
        shard: Shard | None = None,
        adapters: Sequence[Adapter] = (),
    ) -> None:
        self.shape, self.shard = shape, shard or Shard(shape)
        self.device = embed.code.weight.device
        self._embed, self._attention = embed, attention
        self._make_matrix, self._adapters = make_matrix, adapters
        self._rotary = tuple(table.to(self.device) for table in rotary_tables(shape))

    def pack(self, index: int, layer: LayerWeights) -> LayerMatrices:
        shape, piece = self.shape, self.shard.piece
        hidden, inner = piece(shape.hidden_size), piece(shape.intermediate_size)

        def matrix(name: str, piece: int) -> AdaptedMatrix:
            low = [adapter.fused(shape, index, name) for adapter in self._adapters]
            narrow = narrow_matrices(low, self.device, layer.qkv.dtype)
            return AdaptedMatrix(self._make_matrix(getattr(layer, name), piece), narrow)

        return LayerMatrices(
            qkv=matrix("qkv", shape.head_dim),
            out=matrix("out", hidden),
            gate_up=GatedMatrix(matrix("gate", inner), matrix("up", inner)),
            down=matrix("down", hidden),
        )

    def metadata(self, batch: InputBatch, pool: Tensor) -> Metadata:
        positions = torch.from_numpy(batch.positions).to(self.device)
        cosines, sines = (t[positions].unsqueeze(1) for t in self._rotary)
        return cosines, sines, self._attention.plan(batch, pool)

    def adapters(self, batch: InputBatch) -> RowsOf | None:
        """Return the rows of each adapter."""
        if (of := batch.adapter_of) is None:
            return None
        return {
            number: torch.from_numpy(of == number).nonzero().squeeze(1).to(self.device)
            for number in sorted(set(of.tolist()) - {-1})
        }

    def embed(self, kinds: Tensor, ids: Tensor, vectors: Tensor) -> Tensor:
        tables = self._embed.text.weight, self._embed.code.weight
        return embed_rows_torch(kinds, ids, vectors, *tables)

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return rms_norm_torch(x, weight, eps)

    def product(
        self,
        x: Tensor,
        matrix: AdaptedMatrix | GatedMatrix,
        adapters: RowsOf | None,
        *,
        norm: tuple[Tensor, float] | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        found = matrix(x if norm is None else self.norm(x, *norm), adapters or {})
        if residual is not None:
            return residual.add_(found)
        return found if out is None else out.copy_(found)

    def attend(
        self, qkv: Tensor, rows: Metadata, pool: Tensor, layer: int, ahead: Sequence[object]
    ) -> Tensor:
        heads, kv_heads = len(self.shard.heads), len(self.shard.kv_heads)
        fused = qkv.view(len(qkv), heads + 2 * kv_heads, -1)
        cosines, sines, plan = rows
        turned = rotate(fused[:, : heads + kv_heads], cosines, sines)
        query, key, value = turned[:, :heads], turned[:, heads:], fused[:, heads + kv_heads :]
        return self._attention(query, key, value, pool, layer, plan).flatten(1)
