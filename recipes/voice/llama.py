"""A trainable Llama whose attention heads can be guided, made fast on a CPU.

It has the tensors of transformers' ``LlamaModel``, except the embeddings. On a CPU scores are
computed in full, in the dtype of the products.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention

from ChatTTS.model.llama.config import LlamaShape

from .layers import MLP, RMSNorm

# The score of a masked position: finite, so that no row of scores lacks gradients.
_NEVER = -1e4
# Most text positions that a frame speaks; shorter than a frame is hardly any symbol.
MOST_SPOKEN = 4
_LEAST_SHARE = 1e-20


@dataclass(frozen=True)
class Guidance:
    """The positions that some heads should attend to.

    Attributes:
        spoken: int64 [B, L, 2], first and last position that each position should attend to; -1
            for no guidance. Only the first ``MOST_SPOKEN`` of them count.
        layers: indices of the guided layers.
        heads: number of guided heads in each of them.
    """

    spoken: Tensor
    layers: tuple[int, ...]
    heads: int


@dataclass(frozen=True)
class Geometry:
    """The parts of a batch that all layers share.

    Attributes:
        cos, sin: of the rotary embedding, [L, head_dim].
        mask: [L, L], added to scores.
    """

    cos: Tensor
    sin: Tensor
    mask: Tensor

    @classmethod
    def of(cls, x: Tensor, shape: LlamaShape) -> Geometry:
        """Return the geometry of vectors [B, L, hidden], in the dtype of their products."""
        half, length = shape.head_dim // 2, x.shape[1]
        kind = x.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
        places = torch.arange(length, device=x.device)
        frequencies = shape.rope_theta ** (-torch.arange(half, device=x.device) / half)
        angles = (places[:, None] * frequencies).repeat(1, 2)
        mask = torch.full((length, length), _NEVER, device=x.device, dtype=dtype).triu(1)
        return cls(angles.cos().to(dtype), angles.sin().to(dtype), mask)

    def rotated(self, x: Tensor) -> Tensor:
        """Rotate each pair (i, i + half) of x [B, heads, L, head_dim] by its angle."""
        a, b = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat([-b, a], dim=-1) * self.sin


class Attention(nn.Module):
    """Causal attention with rotary positions."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.heads = shape.num_attention_heads
        inner = self.heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden_size, inner, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, inner, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, inner, bias=False)
        self.o_proj = nn.Linear(inner, shape.hidden_size, bias=False)

    def forward(
        self, x: Tensor, geometry: Geometry, guidance: Guidance | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention's output [B, L, hidden], and the guidance loss with guidance."""
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = geometry.rotated(q), geometry.rotated(k)
        is_fused = prefers_fused(x)
        # Fused attention keeps no shares, so those of the few guided heads are computed for it.
        guided = 0 if guidance is None else guidance.heads
        told = slice(guided if is_fused else None)
        shares = None if is_fused and not guided else _shares(q[:, told], k[:, told], geometry.mask)
        if is_fused:
            y = scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            assert shares is not None
            y = shares.to(v.dtype) @ v
        loss = None
        if guidance is not None and shares is not None:
            loss = guidance_loss(shares[:, :guided], guidance.spoken)
        return self.o_proj(y.transpose(1, 2).flatten(2)), loss


def prefers_fused(x: Tensor) -> bool:
    """Return whether fused attention is faster for what comes of ``x``.

    On a CPU its gradients are slower than those of scores in full.
    """
    return x.is_cuda or not torch.is_grad_enabled()


def _shares(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """Return how much each position attends to each, [B, heads, L, L]."""
    scores: Tensor = (q * q.shape[-1] ** -0.5) @ k.mT + mask
    return scores.softmax(-1)


def guidance_loss(shares: Tensor, spoken: Tensor) -> Tensor:
    """Return minus the log of the attention on the wanted positions.

    Args:
        shares: [B, heads, L, L], attention of each position on each.
        spoken: int64 [B, L, 2], first and last wanted position; -1 for no guidance.

    Returns:
        The mean over heads and guided positions; 0 if no position is guided.
    """
    first, last = spoken[..., :1], spoken[..., 1:]
    # Few positions are wanted, so picking them is faster than a pass over all.
    wanted = first + torch.arange(MOST_SPOKEN, device=spoken.device)  # [B, L, MOST_SPOKEN]
    counts = (first >= 0) & (wanted <= last)
    index = wanted.clamp(0, shares.shape[-1] - 1)[:, None].expand(-1, shares.shape[1], -1, -1)
    picked = shares.gather(-1, index).float() * counts[:, None]
    losses = -picked.sum(-1).clamp_min(_LEAST_SHARE).log()
    is_guided = (spoken[..., 0] >= 0)[:, None]
    return (losses * is_guided).sum() / (is_guided.sum() * shares.shape[1]).clamp_min(1)


class Layer(nn.Module):
    """Attention, then the MLP; each reads a normalised copy and adds its result."""

    def __init__(self, shape: LlamaShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.self_attn = Attention(shape)
        self.mlp = MLP(shape)
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)

    def forward(
        self, x: Tensor, geometry: Geometry, guidance: Guidance | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return vectors [B, L, hidden], and the guidance loss with guidance."""
        y, loss = self.self_attn(self.input_layernorm(x), geometry, guidance)
        x = x + self.dropout(y)
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x))), loss


class Llama(nn.Module):
    """The layers and the final norm, from embedded vectors to hidden states.

    Args:
        shape: sizes; there must be as many heads for keys as for queries, and no biases.
        dropout: share of what a layer adds that is left out in training.
    """

    def __init__(self, shape: LlamaShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.num_hidden_layers))
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        out = 0.02 / (2 * shape.num_hidden_layers) ** 0.5
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                added = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=out if added else 0.02)

    def compile_layers(self) -> None:
        """Compile each layer by itself, for batches of any shape.

        Compiling the whole model would be a little faster. But the compiler then treats the layers'
        indices as unknown, and no layer is guided.
        """
        for layer in self.layers:
            layer.compile(dynamic=True)

    def forward(self, x: Tensor, guidance: Guidance | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Apply all layers to x [B, L, hidden].

        Returns:
            The hidden states [B, L, hidden]; those after two thirds of the layers; and the guidance
            loss, a scalar, the mean over the guided layers.
        """
        geometry = Geometry.of(x, self.shape)
        losses = []
        inner = x
        for number, layer in enumerate(self.layers):
            guided = guidance if guidance is not None and number in guidance.layers else None
            x, loss = layer(x, geometry, guided)
            if loss is not None:
                losses.append(loss)
            if number == 2 * len(self.layers) // 3:
                inner = rms_norm(x.float(), x.shape[-1:], eps=self.shape.rms_norm_eps)
        mean = torch.stack(losses).mean() if losses else x.new_zeros(())
        return self.norm(x), inner, mean
