"""The Llama of the engine in plain torch: the reference for the kernels, and the fallback where no
kernel can run.

A step may mix rows of any sequences. Keys and values are kept in blocks; the batch's block tables
say which blocks belong to which sequence.
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
from ..rotary import rotate
from .attention import TorchAttention
from .batch import InputBatch

# Products are computed in tiles of this many rows. So neither the library's choice of an algorithm
# nor a bit of a row depends on the number of rows.
TILE = 16
# Torch computes an element-wise function on whole vectors, and on the few numbers behind the last
# vector in another way. Chunks of this size consist of whole vectors on every processor, and torch
# does not divide one among threads.
_CHUNK = 1 << 12


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

    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        """Compute a step, and write the rows' keys and values into their blocks of ``pool``.

        The attention that ``batch.probe`` asks for is written into it.

        Returns:
            The hidden states of ``batch.draws`` after the final norm, [draws, hidden], on the CPU.
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
        batch_invariant: compute so that no bit of a row depends on the other rows.
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
    ) -> None:
        self._shape = shape
        self._weights = weights
        self._embed = embed
        self._attention = attention
        self._cosines, self._sines = (table.to(weights.final_norm.device) for table in rotary)
        self._product: Callable[[Tensor, Tensor], Tensor] = tiled if batch_invariant else linear
        on_cpu = weights.final_norm.device.type == "cpu"
        self._silu: Callable[[Tensor], Tensor] = (
            chunked_silu if batch_invariant and on_cpu else silu
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
            query, key, value = torch.split(fused, heads, dim=1)
            query, key = (rotate(part, *rotary) for part in (query, key))
            mixed = self._attention(query, key, value, pool, index, batch)
            x = x + self._product(mixed.flatten(1), layer.out)
            normed = self._norm(x, layer.mlp_norm)
            gate, up = self._product(normed, layer.gate), self._product(normed, layer.up)
            x = x + self._product(self._silu(gate) * up, layer.down)
        drawn = x[torch.from_numpy(batch.draws).to(device)]
        return self._norm(drawn, self._weights.final_norm).cpu()

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


def tiled(rows: Tensor, weight: Tensor) -> Tensor:
    """Multiply ``rows`` [n, inputs] by ``weight`` [outputs, inputs], in products of one shape."""
    missing = -len(rows) % TILE
    padded = torch.cat([rows, rows.new_zeros(missing, rows.shape[1])]) if missing else rows
    tiles = [linear(tile, weight) for tile in torch.split(padded, TILE)]
    return torch.cat(tiles)[: len(rows)]


class RowLinear(nn.Module):
    """A linear layer without bias; no bit of a row depends on the other rows.

    Args:
        weight: [outputs, inputs].
        product: multiplies rows by the transposed weight, with this promise.
    """

    def __init__(self, weight: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self._product = product

    def forward(self, rows: Tensor) -> Tensor:
        return self._product(rows, self.weight)


def chunked_silu(x: Tensor) -> Tensor:
    """Apply SiLU; the result of a number does not depend on its place in the tensor."""
    flat = pad(x.flatten(), (0, -x.numel() % _CHUNK))
    return torch.cat([silu(part) for part in torch.split(flat, _CHUNK)])[: x.numel()].view_as(x)
