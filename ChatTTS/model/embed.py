"""Embeddings and heads: the input of the Llama, and logits from its hidden states."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import EmbedConfig
from ..weights.tensor_file import TensorFile
from ..weights.tensors import check_tensors, load_module
from .devices.placement import Placement, computed

# Modules of the published class, and those that have their weights here.
_INSTEAD = {
    "emb_text": "its table is chat.embed.text",
    "emb_code": "the tables of all codebooks are one, chat.embed.code",
}
_MIN_NORM = 1e-12


class RowKind(IntEnum):
    """The kind of an input row of the Llama, which decides how it is embedded."""

    TEXT = 0
    CODE = 1
    VECTOR = 2


class Embed(nn.Module):
    """The embeddings of text ids and frames of codes, and the heads that give logits.

    All codebooks share one table and one head, so a frame takes one look-up and one product.
    """

    def __init__(self, config: EmbedConfig) -> None:
        super().__init__()
        self.num_codebooks = config.num_vq
        self.num_audio_tokens = config.num_audio_tokens
        self.end_of_speech = config.end_of_speech
        codes = config.num_vq * config.num_audio_tokens
        self.text = _table(config.num_text_tokens, config.hidden_size)
        self.code = _table(codes, config.hidden_size)
        # Engines may replace these by linear layers of their own.
        self.head_text: nn.Module = nn.Linear(
            config.hidden_size, config.num_text_tokens, bias=False
        )
        self.head_code: nn.Module = nn.Linear(config.hidden_size, codes, bias=False)
        with computed():
            offsets = torch.arange(config.num_vq) * config.num_audio_tokens
        self.register_buffer("offsets", offsets, persistent=False)
        self.offsets: Tensor

    def __getattr__(self, name: str) -> Any:
        if name in _INSTEAD:
            raise AttributeError(f"chat.embed has no attribute {name!r}: {_INSTEAD[name]}")
        return super().__getattr__(name)

    def embed_text(self, ids: Tensor) -> Tensor:
        """Embed text ids [...] as vectors [..., hidden]."""
        vectors: Tensor = self.text(ids)
        return vectors

    def embed_codes(self, codes: Tensor) -> Tensor:
        """Embed frames [..., num_codebooks] as vectors [..., hidden], summed over the codebooks."""
        vectors: Tensor = self.code(codes + self.offsets)
        return vectors.sum(dim=-2)

    @torch.inference_mode()
    def forward(self, input_ids: Tensor, text_mask: Tensor) -> Tensor:
        """Embed prompts that ``chat.tokenizer.encode`` returned as vectors [B, T, hidden].

        Args:
            input_ids: [B, T, num_codebooks].
            text_mask: [B, T], true where a position is text.
        """
        weight = self.text.weight
        ids, is_text = input_ids.to(weight.device), text_mask.to(weight.device)
        vectors = weight.new_zeros(*is_text.shape, weight.shape[1])
        vectors[is_text] = self.embed_text(ids[is_text][:, 0])
        vectors[~is_text] = self.embed_codes(ids[~is_text])
        return vectors

    def text_logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [B, 1, text tokens] of hidden states [B, hidden]."""
        logits: Tensor = self.head_text(hidden)
        return logits.float().unsqueeze(1)

    def code_logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [B, num_codebooks, audio tokens] of hidden states [B, hidden]."""
        logits: Tensor = self.head_code(hidden)
        return logits.float().view(-1, self.num_codebooks, self.num_audio_tokens)


def _table(rows: int, width: int) -> nn.Embedding:
    """Return an embedding with start values, unless it is built on the meta device.

    There, drawing them imports torch's compiler, which takes longer than loading a checkpoint.
    """
    table: nn.Embedding = nn.Embedding.from_pretrained(torch.empty(rows, width), freeze=False)
    if not table.weight.is_meta:
        table.reset_parameters()
    return table


def published_sizes(config: EmbedConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors of ``Embed.safetensors``, by name."""
    hidden, texts, codes = config.hidden_size, config.num_text_tokens, config.num_audio_tokens
    heads = {"head_text": texts} | {f"head_code.{i}": codes for i in range(config.num_vq)}
    sizes: dict[str, tuple[int, ...]] = {"emb_text.weight": (texts, hidden)}
    sizes |= {f"emb_code.{i}.weight": (codes, hidden) for i in range(config.num_vq)}
    for name, rows in heads.items():
        sizes |= {_part(name, 0): (rows, 1), _part(name, 1): (rows, hidden)}
    return sizes


def from_published(tensors: Mapping[str, Tensor], num_codebooks: int) -> dict[str, Tensor]:
    """Rename and merge the tensors of ``Embed.safetensors`` into those of :class:`Embed`.

    The heads are weight-normed in the file (magnitude ``original0``, direction ``original1``):
    weight = g * v / ||v||, the norm taken over each row.
    """

    def head(name: str) -> Tensor:
        magnitude, direction = (tensors[_part(name, i)].float() for i in (0, 1))
        # In double, since the order of torch's sums in float32 depends on the processor.
        norms = direction.double().square().sum(dim=1, keepdim=True).sqrt().float()
        return magnitude * (direction / norms.clamp_min(_MIN_NORM))

    return {
        "text.weight": tensors["emb_text.weight"],
        "code.weight": torch.cat([tensors[f"emb_code.{i}.weight"] for i in range(num_codebooks)]),
        "head_text.weight": head("head_text"),
        "head_code.weight": torch.cat([head(f"head_code.{i}") for i in range(num_codebooks)]),
    }


def _part(head: str, index: int) -> str:
    return f"{head}.parametrizations.weight.original{index}"


def load_embed(file: Path, config: EmbedConfig, placement: Placement) -> Embed:
    """Load embeddings and heads from ``asset/Embed.safetensors``, in the language model's dtype.

    Raises:
        AssetError: the file cannot be used, or does not fit ``config``.
    """
    tensors = TensorFile(file)
    sizes = published_sizes(config)
    expected = {name: torch.empty(size, device="meta") for name, size in sizes.items()}
    check_tensors(expected, tensors.infos, file=file)
    with torch.device("meta"):
        embed = Embed(config).to(placement.dtype)
    load_module(embed, from_published(tensors, config.num_vq), file=file)
    return embed.to(placement.device).eval().requires_grad_(False)
