"""The Llama of the engine in plain torch: the reference for the kernels, and the fallback where no
kernel can run.

A step may mix rows of any sequences. Keys and values are kept in blocks; the batch's block tables
say which blocks belong to which sequence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ....embed import Embed, RowKind
from ....llama.config import LlamaShape
from ....llama.shard import Peers, Shard
from ....llama.weights import LayerWeights
from ....lora.adapter import Adapter
from ...input_batch import InputBatch
from .attention import Attention
from .linear import Matrix, MatrixMaker
from .lora import TorchAdapters


@dataclass(frozen=True)
class _Layer:
    """One layer's matrices, and the weights of its norms [hidden]."""

    qkv: Matrix
    out: Matrix
    gate: Matrix
    up: Matrix
    down: Matrix
    attention_norm: Tensor
    mlp_norm: Tensor


class TorchLlama:
    """A Llama (Touvron et al. 2023) on torch's operators.

    No bit of a row depends on the other rows or on the number of ranks, if that holds for the
    products and for the attention.

    Args:
        shape: sizes and constants.
        layers: fused projections, on the device and in the dtype to compute in; each is taken when
            the one before is packed.
        final_norm: the weight of the final norm, [hidden].
        embed: embeds the rows.
        attention: attends over the blocks.
        rotary: cosines and sines, each float32 [positions, head size].
        make_matrix: makes what rows are multiplied with.
        shard, peers: the rank, and how it reaches the others; by default it is the only one.
        adapters: those that rows may have; none if there are several ranks.
    """

    gives_attention = True

    def __init__(
        self,
        shape: LlamaShape,
        layers: Iterable[LayerWeights],
        final_norm: Tensor,
        embed: Embed,
        attention: Attention,
        rotary: tuple[Tensor, Tensor],
        make_matrix: MatrixMaker,
        *,
        shard: Shard | None = None,
        peers: Peers | None = None,
        adapters: Sequence[Adapter] = (),
    ) -> None:
        self._shape = shape
        self._shard, self._peers = shard or Shard(shape), peers
        self._embed = embed
        self._attention = attention
        cosines, sines = (table.to(final_norm.device) for table in rotary)
        half = shape.head_dim // 2
        self._cosines = cosines
        # The halves of a head are swapped, and the first one changes its sign.
        self._sines = torch.cat([-sines[:, :half], sines[:, half:]], dim=1)
        self._layers = [self._made(layer, make_matrix) for layer in layers]
        self._final_norm = final_norm
        self._adapters = TorchAdapters(adapters, shape, final_norm.device, final_norm.dtype)

    def _made(self, layer: LayerWeights, make: MatrixMaker) -> _Layer:
        shape, piece = self._shape, self._shard.piece
        hidden, inner = piece(shape.hidden_size), piece(shape.intermediate_size)
        return _Layer(
            qkv=make(layer.qkv, shape.head_dim),
            out=make(layer.out, hidden),
            gate=make(layer.gate, inner),
            up=make(layer.up, inner),
            down=make(layer.down, hidden),
            attention_norm=layer.attention_norm,
            mlp_norm=layer.mlp_norm,
        )

    def new_pool(self, num_blocks: int) -> Tensor:
        return self._attention.new_pool(num_blocks)

    @property
    def block_bytes(self) -> int:
        return self._attention.block_bytes

    def new_rows(self, rows: int) -> Tensor:
        return self._embed.code.weight.new_empty(rows, self._shape.hidden_size)

    @torch.inference_mode()
    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        shard = self._shard
        if batch.probe is not None:
            batch = replace(batch, probe=batch.probe.of_shard(shard))
        device = self._final_norm.device
        x = self._embed_rows(batch) if batch.given is None else batch.given
        positions = torch.from_numpy(batch.positions).to(device)
        cosines, sines = (t[positions].unsqueeze(1) for t in (self._cosines, self._sines))
        heads, kv_heads = len(shard.heads), len(shard.kv_heads)
        plan = self._attention.plan(batch, pool)
        adapters = self._adapters.of(batch, device)
        for index, layer in enumerate(self._layers):
            normed = self._norm(x, layer.attention_norm)
            fused = adapters.add(layer.qkv(normed), normed, index, "qkv")
            fused = fused.view(len(batch), heads + 2 * kv_heads, -1)
            turned = _rotated(fused[:, : heads + kv_heads], cosines, sines)
            query, key = turned[:, :heads], turned[:, heads:]
            value = fused[:, heads + kv_heads :]
            mixed = self._attention(query, key, value, pool, index, plan).flatten(1)
            mixed = self._gather(mixed, shard.query_columns())
            x = x + self._gather_hidden(adapters.add(layer.out(mixed), mixed, index, "out"))
            normed = self._norm(x, layer.mlp_norm)
            gated = adapters.activate(layer.gate.activated(normed), layer.gate, normed, index)
            gated = gated * adapters.add(layer.up(normed), normed, index, "up")
            gated = self._gather(gated, shard.columns(self._shape.intermediate_size))
            x = x + self._gather_hidden(adapters.add(layer.down(gated), gated, index, "down"))
        if not shard.is_last:
            return x
        drawn = x[torch.from_numpy(batch.draws).to(device)]
        return self._norm(drawn, self._final_norm).cpu()

    def _gather(self, part: Tensor, columns: list[int]) -> Tensor:
        """Return the columns [rows, all] of all ranks of the stage."""
        return part if self._peers is None else self._peers.gather(part, columns)

    def _gather_hidden(self, part: Tensor) -> Tensor:
        return self._gather(part, self._shard.columns(self._shape.hidden_size))

    def _embed_rows(self, batch: InputBatch) -> Tensor:
        """Return the rows' vectors [rows, hidden]."""
        table = self._embed.code.weight
        ids = torch.from_numpy(batch.ids).long().to(table.device)
        if (batch.kinds == RowKind.CODE).all():  # as in a step that only decodes
            return self._embed.embed_codes(ids)
        kinds = torch.from_numpy(batch.kinds).to(table.device)
        x = table.new_empty(len(batch), table.shape[1])
        text, code, vector = ((kinds == kind).nonzero().squeeze(1) for kind in RowKind)
        x[text] = self._embed.embed_text(ids[text, 0])
        x[code] = self._embed.embed_codes(ids[code])
        x[vector] = torch.from_numpy(batch.vectors).to(x)[ids[vector, 0]]
        return x

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Apply RMSNorm (Zhang and Sennrich 2019) over the last dimension, in float32."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._shape.rms_norm_eps)
        return weight * (wide * scale).to(x.dtype)


def _rotated(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Apply the rotary embedding to ``x`` [rows, heads, head size], in float32.

    Args:
        cosines, sines: of each row, [rows, 1, head size]; sines have the signs of their terms.
    """
    wide = x.float()
    turned = torch.roll(wide, x.shape[-1] // 2, dims=-1)
    return (wide * cosines).add_(turned.mul_(sines)).to(x.dtype)
