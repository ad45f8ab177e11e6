"""The Llama of the engine in plain torch: the reference of every faster one, and what runs where
none of them can.

Rows of any sequences go through it side by side. Keys and values lie in blocks; which blocks are
whose is said by the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad, silu

from ..embed import Embed, RowKind
from ..llama_config import LlamaShape
from ..llama_weights import LlamaWeights
from .attention import Attention
from .batch import InputBatch

# Products are made in tiles of so many rows, so that the way a product is computed, and with it
# every bit of a row, never depends on how many rows there are.
TILE = 16
# An element-wise function goes over whole vectors, and over the few numbers behind the last one in
# another way. Stretches of this many are whole vectors anywhere, and none is cut among threads.
_STRETCH = 1 << 12


class LlamaModel(Protocol):
    """What computes a step on some device."""

    def new_pool(self, num_blocks: int) -> Tensor:
        """Room for blocks; the first dimension counts them, and each is contiguous."""
        ...

    @property
    def block_bytes(self) -> int:
        """Size of a block, all layers, keys and values."""
        ...

    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        """Write the rows' keys and values into their blocks of ``pool``; hidden states after the
        final norm, [draws, hidden] on the CPU."""
        ...


class TorchLlama:
    """A Llama (Touvron et al. 2023) on torch's own operators.

    Args:
        shape: sizes and constants.
        weights: fused projections, on the device and in the dtype to compute in.
        embed: of the rows.
        attention: over the blocks.
        rotary: cosines and sines, each float32 [positions, head size].
        batch_invariant: make products in tiles and so on, so that no row sees its neighbours.
    """

    def __init__(
        self,
        shape: LlamaShape,
        weights: LlamaWeights,
        embed: Embed,
        attention: Attention,
        rotary: tuple[Tensor, Tensor],
        *,
        batch_invariant: bool,
    ) -> None:
        self._shape = shape
        self._weights = weights
        self._embed = embed
        self._attention = attention
        self._cosines, self._sines = (table.to(weights.final_norm.device) for table in rotary)
        self._product: Callable[[Tensor, Tensor], Tensor] = tiled if batch_invariant else linear
        on_cpu = weights.final_norm.device.type == "cpu"
        self._silu: Callable[[Tensor], Tensor] = (
            stretched_silu if batch_invariant and on_cpu else silu
        )

    def new_pool(self, num_blocks: int) -> Tensor:
        return self._attention.new_pool(num_blocks)

    @property
    def block_bytes(self) -> int:
        return self._attention.block_bytes

    @torch.inference_mode()
    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        shape = self._shape
        device = self._weights.final_norm.device
        x = self._embed_rows(batch)
        positions = torch.from_numpy(batch.positions).to(device)
        rotary = self._cosines[positions].unsqueeze(1), self._sines[positions].unsqueeze(1)
        heads = [shape.num_attention_heads, *[shape.num_key_value_heads] * 2]
        for index, layer in enumerate(self._weights.layers):
            normed = self._norm(x, layer.attention_norm)
            fused = self._product(normed, layer.qkv).view(len(batch), sum(heads), -1)
            query, key, value = fused.split(heads, dim=1)
            query, key = (rotate(part, *rotary) for part in (query, key))
            mixed = self._attention(query, key, value, pool, index, batch)
            x = x + self._product(mixed.flatten(1), layer.out)
            normed = self._norm(x, layer.mlp_norm)
            gate, up = self._product(normed, layer.gate), self._product(normed, layer.up)
            x = x + self._product(self._silu(gate) * up, layer.down)
        drawn = x[torch.from_numpy(batch.draws).to(device)]
        return self._norm(drawn, self._weights.final_norm).cpu()

    def _embed_rows(self, batch: InputBatch) -> Tensor:
        """Rows to vectors [rows, hidden]."""
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
        """RMSNorm (Zhang and Sennrich 2019) over the last dimension, in float32."""
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self._shape.rms_norm_eps)
        return weight * (wide * scale).to(x.dtype)


def tiled(rows: Tensor, weight: Tensor) -> Tensor:
    """``rows`` [n, inputs] times ``weight`` [outputs, inputs], in products of equal shape."""
    missing = -len(rows) % TILE
    padded = torch.cat([rows, rows.new_zeros(missing, rows.shape[1])]) if missing else rows
    tiles = [linear(tile, weight) for tile in padded.split(TILE)]
    return torch.cat(tiles)[: len(rows)]


class TiledLinear(nn.Module):
    """A linear layer without bias whose rows do not see their neighbours."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, rows: Tensor) -> Tensor:
        return tiled(rows, self.weight)


def stretched_silu(x: Tensor) -> Tensor:
    """SiLU, whose bits do not depend on where a number stands."""
    flat = pad(x.flatten(), (0, -x.numel() % _STRETCH))
    return torch.cat([silu(part) for part in flat.split(_STRETCH)])[: x.numel()].view_as(x)


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Rotary embedding (Su et al. 2021) of [rows, heads, head size], in float32."""
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return (wide * cosines + turned * sines).to(x.dtype)
