"""Embeddings, heads and sizes of a language model in the published layout of checkpoints."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import Tensor, nn

from ChatTTS.model.embed import Embed
from ChatTTS.model.llama.config import LlamaShape


def published_embed(embed: Embed) -> dict[str, Tensor]:
    """Return embeddings and heads by their published names; heads as magnitude and direction."""
    heads = {"head_text": _weight(embed.head_text)}
    tensors = {"emb_text.weight": embed.text.weight.detach()}
    size = embed.num_audio_tokens
    for number in range(embed.num_codebooks):
        rows = slice(number * size, (number + 1) * size)
        tensors[f"emb_code.{number}.weight"] = embed.code.weight.detach()[rows]
        heads[f"head_code.{number}"] = _weight(embed.head_code)[rows]
    for name, weight in heads.items():
        norm = f"{name}.parametrizations.weight.original"
        tensors[f"{norm}0"] = weight.norm(dim=1, keepdim=True)
        tensors[f"{norm}1"] = weight
    return tensors


def llama_json(shape: LlamaShape) -> dict[str, Any]:
    """Return the content of ``asset/gpt/config.json``."""
    values = asdict(shape)
    del values["rope_scaling"]
    return {
        "architectures": ["LlamaModel"],
        "model_type": "llama",
        "vocab_size": 8,
        "use_cache": False,
        **values,
    }


def _weight(head: nn.Module) -> Tensor:
    weight = head.weight
    assert isinstance(weight, Tensor)
    return weight.detach()
