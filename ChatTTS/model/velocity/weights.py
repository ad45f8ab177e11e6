"""The Llama's weights as a checkpoint holds them, fused for the engine, one layer at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from ...checkpoint import check_tensors, read_tensors
from ...errors import EngineUnavailableError
from ..llama_config import LlamaShape


@dataclass(frozen=True)
class LayerWeights:
    """One layer. Matrices are [outputs, inputs]; ``qkv`` stacks queries, keys and values."""

    qkv: Tensor
    out: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    attention_norm: Tensor
    mlp_norm: Tensor

    def to(self, device: torch.device) -> LayerWeights:
        """The same weights on ``device``."""
        return LayerWeights(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})


@dataclass(frozen=True)
class LlamaWeights:
    """All layers, and the norm behind them, [hidden]."""

    layers: tuple[LayerWeights, ...]
    final_norm: Tensor


class LlamaFile:
    """``asset/gpt/model.safetensors``, checked as a whole and read layer by layer.

    The file is mapped anew for each layer, so that memory never holds a second set of the weights.

    Raises:
        AssetError: the file cannot be used, or does not fit ``shape``.
        EngineUnavailableError: a kind of Llama that only the standard engine knows.
    """

    def __init__(self, path: Path, shape: LlamaShape) -> None:
        if shape.hidden_act != "silu" or shape.attention_bias or shape.mlp_bias:
            raise EngineUnavailableError(
                "the velocity engine knows Llamas with silu and without biases, which the "
                f"config.json beside {path} does not describe; load without use_vllm"
            )
        if shape.head_dim % 2 or shape.num_attention_heads % shape.num_key_value_heads:
            raise EngineUnavailableError(
                f"the velocity engine needs attention heads of an even size ({shape.head_dim}), in "
                f"whole groups ({shape.num_attention_heads} of queries to "
                f"{shape.num_key_value_heads} of keys), which the config.json beside {path} does "
                "not describe; load without use_vllm"
            )
        self.path = path
        self.shape = shape
        self._sizes = _layer_sizes(shape)
        expected: dict[str, tuple[int, ...]] = {"norm.weight": (shape.hidden_size,)}
        for index in range(shape.num_hidden_layers):
            expected |= {f"layers.{index}.{name}": size for name, size in self._sizes.items()}
        check_tensors(
            {name: torch.empty(size, device="meta") for name, size in expected.items()},
            read_tensors(path),
            file=path,
            unused_ok=("embed_tokens.",),
        )

    def layer(self, index: int, dtype: torch.dtype = torch.float32) -> LayerWeights:
        """A copy of one layer's weights."""
        tensors = read_tensors(self.path)
        own = {name: tensors[f"layers.{index}.{name}"] for name in self._sizes}
        return _fused({name: tensor.to(dtype) for name, tensor in own.items()})

    def final_norm(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """A copy of the last norm's weight."""
        return read_tensors(self.path)["norm.weight"].to(dtype, copy=True)


def _layer_sizes(shape: LlamaShape) -> dict[str, tuple[int, ...]]:
    """Shapes of a layer's tensors by their names in the file."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    keys = shape.num_key_value_heads * shape.head_dim
    return {
        "self_attn.q_proj.weight": (queries, hidden),
        "self_attn.k_proj.weight": (keys, hidden),
        "self_attn.v_proj.weight": (keys, hidden),
        "self_attn.o_proj.weight": (hidden, queries),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
    }


def _fused(tensors: Mapping[str, Tensor]) -> LayerWeights:
    def copy(name: str) -> Tensor:
        return tensors[name].contiguous().clone()

    return LayerWeights(
        qkv=torch.cat([tensors[f"self_attn.{part}_proj.weight"] for part in "qkv"]),
        out=copy("self_attn.o_proj.weight"),
        gate=copy("mlp.gate_proj.weight"),
        up=copy("mlp.up_proj.weight"),
        down=copy("mlp.down_proj.weight"),
        attention_norm=copy("input_layernorm.weight"),
        mlp_norm=copy("post_attention_layernorm.weight"),
    )
