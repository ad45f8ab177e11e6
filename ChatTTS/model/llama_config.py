"""What kind of Llama a checkpoint holds, read from ``asset/gpt/config.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config import GPTConfig
from ..errors import AssetError

_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_hidden_layers",
    "max_position_embeddings",
)


@dataclass(frozen=True)
class LlamaShape:
    """Sizes and constants; the names are those of Llama checkpoints.

    Attributes:
        rope_scaling: what stretches the rotary embedding (``rope_type`` and its settings); empty
            for the plain one.
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_hidden_layers: int
    max_position_embeddings: int
    num_key_value_heads: int
    head_dim: int
    hidden_act: str = "silu"
    rms_norm_eps: float = 1e-6
    attention_bias: bool = False
    mlp_bias: bool = False
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] = field(default_factory=dict)


def read_llama_shape(path: Path, sizes: GPTConfig) -> LlamaShape:
    """Read ``path``; the rope base stands there in its old (``rope_theta``) or new
    (``rope_parameters``) spelling.

    Raises:
        AssetError: the file is missing or damaged, or contradicts ``sizes``.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise AssetError(f"{path} is missing or not JSON ({error})") from error
    if not isinstance(values, dict):
        raise AssetError(f"{path} must hold a JSON object, not {type(values).__name__}")
    try:
        return _shape(path, values, sizes)
    except (TypeError, ValueError, AttributeError) as error:
        raise AssetError(f"{path} describes no Llama ({error}); restore the file") from error


def _shape(path: Path, values: dict[str, Any], sizes: GPTConfig) -> LlamaShape:
    for name in _SIZES:
        if values.get(name, getattr(sizes, name)) != getattr(sizes, name):
            raise AssetError(
                f"{path}: {name} is {values[name]}, but asset/config.json (or the published "
                f"size, without that file) says {getattr(sizes, name)}"
            )
    rope = values.get("rope_parameters") or values.get("rope_scaling") or {}
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    plain = scaling.get("rope_type", scaling.get("type", "default")) == "default"
    heads = sizes.num_attention_heads
    return LlamaShape(
        **{name: getattr(sizes, name) for name in _SIZES},
        num_key_value_heads=int(values.get("num_key_value_heads") or heads),
        head_dim=int(values.get("head_dim") or sizes.hidden_size // heads),
        hidden_act=str(values.get("hidden_act", "silu")),
        rms_norm_eps=float(values.get("rms_norm_eps", 1e-6)),
        attention_bias=bool(values.get("attention_bias", False)),
        mlp_bias=bool(values.get("mlp_bias", False)),
        rope_theta=float(rope.get("rope_theta", values.get("rope_theta", 10_000.0))),
        rope_scaling={} if plain else scaling,
    )
