"""A Llama with guided heads, computed plainly and in float32: what the recipe's must give."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm

from ChatTTS.model.llama.config import LlamaShape
from recipes.voice.layers import MLP, RMSNorm

# The score of a masked position: finite, so that a row with only masked positions has gradients.
_NEVER = -1e4


@dataclass(frozen=True)
class Guidance:
    """The positions that some heads should attend to.

    Attributes:
        spoken: int64 [B, L, 2], first and last position that each position should attend to; -1
            for no guidance.
        layers: indices of the guided layers.
        heads: number of guided heads in each of them.
    """

    spoken: Tensor
    layers: tuple[int, ...]
    heads: int


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
        self, x: Tensor, rotary: tuple[Tensor, Tensor], guidance: Guidance | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention's output [B, L, hidden], and the guidance loss with guidance."""
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = _rotated(q, rotary), _rotated(k, rotary)
        scores = (q * q.shape[-1] ** -0.5 @ k.mT).float()  # [B, heads, L, L]
        places = torch.arange(x.shape[1], device=x.device)
        scores = scores.masked_fill(places > places[:, None], _NEVER)
        y = scores.softmax(-1).to(v.dtype) @ v
        loss = None
        if guidance is not None:
            loss = guidance_loss(scores[:, : guidance.heads], guidance.spoken)
        return self.o_proj(y.transpose(1, 2).flatten(2)), loss


def guidance_loss(scores: Tensor, spoken: Tensor) -> Tensor:
    """Return minus the log of the attention on the wanted positions.

    Args:
        scores: float32 [B, heads, L, L], before the softmax.
        spoken: int64 [B, L, 2], first and last wanted position; -1 for no guidance.

    Returns:
        The mean over heads and guided positions; 0 if no position is guided.
    """
    places = torch.arange(scores.shape[-1], device=scores.device)
    first, last = spoken[:, None, :, :1], spoken[:, None, :, 1:]
    unwanted = (places < first) | (places > last)
    is_guided = (spoken[..., 0] >= 0)[:, None]
    # For a position without guidance all positions are wanted, so that every row has one.
    unwanted = unwanted & is_guided[..., None]
    wanted = scores.masked_fill(unwanted, _NEVER).logsumexp(-1)
    losses = (scores.logsumexp(-1) - wanted) * is_guided
    return losses.sum() / (is_guided.sum() * scores.shape[1]).clamp_min(1)


class Layer(nn.Module):
    """Attention, then the MLP; each reads a normalised copy and adds its result."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.self_attn = Attention(shape)
        self.mlp = MLP(shape)
        self.input_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)

    def forward(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], guidance: Guidance | None
    ) -> tuple[Tensor, Tensor | None]:
        y, loss = self.self_attn(self.input_layernorm(x), rotary, guidance)
        x = x + y
        return x + self.mlp(self.post_attention_layernorm(x)), loss


class Llama(nn.Module):
    """The layers and the final norm, from embedded vectors to hidden states.

    Args:
        shape: sizes; there must be as many heads for keys as for queries, and no biases.
    """

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_hidden_layers))
        self.norm = RMSNorm(shape.hidden_size, shape.rms_norm_eps)

    def forward(self, x: Tensor, guidance: Guidance | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Apply all layers to x [B, L, hidden].

        Returns:
            The hidden states [B, L, hidden]; those after two thirds of the layers; and the guidance
            loss, a scalar, the mean over the guided layers.
        """
        rotary = _rotary(x, self.shape)
        losses = []
        inner = x
        for number, layer in enumerate(self.layers):
            guided = guidance if guidance is not None and number in guidance.layers else None
            x, loss = layer(x, rotary, guided)
            if loss is not None:
                losses.append(loss)
            if number == 2 * len(self.layers) // 3:
                inner = rms_norm(x.float(), x.shape[-1:], eps=self.shape.rms_norm_eps)
        mean = torch.stack(losses).mean() if losses else x.new_zeros(())
        return self.norm(x), inner, mean


def _rotary(x: Tensor, shape: LlamaShape) -> tuple[Tensor, Tensor]:
    """Return cosines and sines [L, head_dim / 2] of the rotary embedding."""
    half = shape.head_dim // 2
    frequencies = shape.rope_theta ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[1], device=x.device)[:, None] * frequencies
    return angles.cos(), angles.sin()


def _rotated(x: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate each pair (i, i + half) of x [B, heads, L, head_dim] by its angle."""
    cos, sin = rotary
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).to(x.dtype)
