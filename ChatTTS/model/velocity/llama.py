"""The Llama of the engine in plain torch: the reference for the kernels, and the fallback where no
kernel can run.

A step may mix rows of any sequences. Keys and values are kept in blocks; the batch's block tables
say which blocks belong to which sequence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import linear, pad, silu

from ..embed import Embed, RowKind
from ..llama_config import LlamaShape
from ..llama_weights import LlamaWeights
from ..rotary import rotate
from ..share import Peers, Share
from .attention import TorchAttention
from .batch import InputBatch
from .tiles import aligned, tiled

# Torch computes an element-wise function on whole vectors, and on the few numbers behind the last
# vector in another way. Chunks of this size consist of whole vectors on every processor, and torch
# does not divide one among threads.
_CHUNK = 1 << 12
# Multiplies rows by the transposed weight, in products of so many outputs.
Product = Callable[[Tensor, Tensor, "int | None"], Tensor]


class LlamaModel(Protocol):
    """The interface of every Llama of the engine.

    Attributes:
        gives_attention: whether ``forward`` fills in ``batch.probe``.
    """

    gives_attention: bool

    def new_pool(self, num_blocks: int) -> Tensor:
        """Return memory for blocks; the first dimension counts them, and each is contiguous."""
        ...

    @property
    def block_bytes(self) -> int:
        """The size of a block in bytes: all layers, keys and values."""
        ...

    def new_rows(self, rows: int) -> Tensor:
        """Return memory for what a stage of a pipeline gives to the next, [rows, hidden]."""
        ...

    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        """Compute a step, and write the rows' keys and values into their blocks of ``pool``.

        The attention that ``batch.probe`` asks for is written into it.

        Returns:
            The hidden states of ``batch.draws`` after the final norm, [draws, hidden], on the CPU.
            Of a stage that is not the last one, what its layers computed, [rows, hidden].
        """
        ...


class TorchLlama:
    """A Llama (Touvron et al. 2023) on torch's own operators.

    Args:
        shape: sizes and constants.
        weights: fused projections, on the device and in the dtype to compute in.
        embed: embeds the rows.
        attention: attends over the blocks.
        rotary: cosines and sines, each float32 [positions, head size].
        batch_invariant: compute so that no bit of a row depends on the other rows, or on the number
            of ranks.
        share, peers: the rank, and how it reaches the others; by default it is the only one.
    """

    gives_attention = True

    def __init__(
        self,
        shape: LlamaShape,
        weights: LlamaWeights,
        embed: Embed,
        attention: TorchAttention,
        rotary: tuple[Tensor, Tensor],
        *,
        batch_invariant: bool,
        share: Share | None = None,
        peers: Peers | None = None,
    ) -> None:
        self._shape = shape
        self._share, self._peers = share or Share(shape), peers
        self._embed = embed
        self._attention = attention
        self._cosines, self._sines = (table.to(weights.final_norm.device) for table in rotary)
        self._product: Product = tiled if batch_invariant else _whole
        if batch_invariant:
            weights = replace(weights, layers=tuple(layer.map(aligned) for layer in weights.layers))
        self._weights = weights
        on_cpu = weights.final_norm.device.type == "cpu"
        pieces = map(self._share.piece, (shape.hidden_size, shape.intermediate_size))
        self._pieces = (shape.head_dim, *pieces)
        self._silu: Callable[[Tensor], Tensor] = (
            chunked_silu if batch_invariant and on_cpu else silu
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
        share = self._share
        size, hidden, inner = self._pieces
        if batch.probe is not None:
            batch = replace(batch, probe=batch.probe.of_share(share))
        device = self._weights.final_norm.device
        x = self._embed_rows(batch) if batch.given is None else batch.given
        positions = torch.from_numpy(batch.positions).to(device)
        rotary = self._cosines[positions].unsqueeze(1), self._sines[positions].unsqueeze(1)
        heads = [len(share.heads), *[len(share.kv_heads)] * 2]
        for index, layer in enumerate(self._weights.layers):
            normed = self._norm(x, layer.attention_norm)
            fused = self._product(normed, layer.qkv, size).view(len(batch), sum(heads), -1)
            query, key, value = torch.split(fused, heads, dim=1)
            query, key = (rotate(part, *rotary) for part in (query, key))
            mixed = self._attention(query, key, value, pool, index, batch).flatten(1)
            mixed = self._gather(mixed, share.query_columns())
            x = x + self._gather_hidden(self._product(mixed, layer.out, hidden))
            normed = self._norm(x, layer.mlp_norm)
            gate, up = (self._product(normed, part, inner) for part in (layer.gate, layer.up))
            gated = self._silu(gate) * up
            gated = self._gather(gated, share.columns(self._shape.intermediate_size))
            x = x + self._gather_hidden(self._product(gated, layer.down, hidden))
        if not share.is_last:
            return x
        drawn = x[torch.from_numpy(batch.draws).to(device)]
        return self._norm(drawn, self._weights.final_norm).cpu()

    def _gather(self, own: Tensor, columns: list[int]) -> Tensor:
        """Return the columns [rows, all] of all ranks of the stage."""
        return own if self._peers is None else self._peers.gather(own, columns)

    def _gather_hidden(self, own: Tensor) -> Tensor:
        return self._gather(own, self._share.columns(self._shape.hidden_size))

    def _embed_rows(self, batch: InputBatch) -> Tensor:
        """Return the rows' vectors [rows, hidden]."""
        table = self._embed.code.weight
        kinds = torch.from_numpy(batch.kinds)
        ids = torch.from_numpy(batch.ids).long()
        x = table.new_empty(len(batch), table.shape[1])
        text, code, vector = ((kinds == kind).nonzero().squeeze(1) for kind in RowKind)
        x[text.to(x.device)] = self._embed.embed_text(ids[text, 0].to(x.device))
        x[code.to(x.device)] = self._embed.embed_codes(ids[code].to(x.device))
        vectors = torch.from_numpy(batch.vectors)[ids[vector, 0]]
        x[vector.to(x.device)] = vectors.to(x)
        return x

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """Apply RMSNorm (Zhang and Sennrich 2019) over the last dimension, in float32."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._shape.rms_norm_eps)
        return weight * (wide * scale).to(x.dtype)


def _whole(rows: Tensor, weight: Tensor, piece: int | None) -> Tensor:
    return linear(rows, weight)


def chunked_silu(x: Tensor) -> Tensor:
    """Apply SiLU; the result of a number does not depend on its place in the tensor."""
    flat = pad(x.flatten(), (0, -x.numel() % _CHUNK))
    return torch.cat([silu(part) for part in torch.split(flat, _CHUNK)])[: x.numel()].view_as(x)
