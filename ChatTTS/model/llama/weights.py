"""The Llama's weights as a checkpoint holds them, fused for the engine, one layer at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from ...errors import EngineUnavailableError
from ...weights.tensor_file import TensorFile
from ...weights.tensors import check_tensors, finite
from .config import LlamaShape
from .shard import Shard


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
        """Return the weights on ``device``."""
        return self.map(lambda tensor: tensor.to(device))

    def map(self, change: Callable[[Tensor], Tensor]) -> LayerWeights:
        """Return the layer with each of its tensors as ``change`` returns it."""
        return LayerWeights(**{f.name: change(getattr(self, f.name)) for f in fields(self)})


class LlamaFile:
    """``asset/gpt/model.safetensors``, checked as a whole and read layer by layer.

    The file is opened once. If another file takes its place on disk meanwhile, the layers still
    come from the file that was checked. Memory never holds a second set of the weights.

    Attributes:
        tensors: the open file's tensors by name.

    Raises:
        AssetError: the file cannot be used, or does not fit ``shape``.
        EngineUnavailableError: a kind of Llama that only the standard engine knows.
    """

    def __init__(self, path: Path, shape: LlamaShape) -> None:
        if shape.hidden_act != "silu" or shape.attention_bias or shape.mlp_bias:
            raise EngineUnavailableError(
                "the velocity engine knows Llamas with silu and without biases, which "
                f"{path.with_name('config.json')} does not describe; load without use_vllm"
            )
        self.path = path
        self.shape = shape
        self._sizes = _layer_sizes(shape)
        expected: dict[str, tuple[int, ...]] = {"norm.weight": (shape.hidden_size,)}
        for index in range(shape.num_hidden_layers):
            expected |= {f"layers.{index}.{name}": size for name, size in self._sizes.items()}
        self.tensors = TensorFile(path)
        check_tensors(
            {name: torch.empty(size, device="meta") for name, size in expected.items()},
            self.tensors.infos,
            file=path,
            unused_ok=("embed_tokens.",),
        )

    def layer(
        self, index: int, dtype: torch.dtype = torch.float32, shard: Shard | None = None
    ) -> LayerWeights:
        """Return one layer's weights.

        Args:
            shard: the rank whose outputs are wanted; by default all are.

        Raises:
            AssetError: a weight is not finite, or the file became shorter.
        """
        rows = {} if shard is None else _rows(shard)
        return _fused(
            {
                name: self._read(f"layers.{index}.{name}", dtype, rows.get(name))
                for name in self._sizes
            }
        )

    def final_norm(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the weight of the final norm.

        Raises:
            AssetError: as :meth:`layer`.
        """
        return self._read("norm.weight", dtype)

    def _read(self, name: str, dtype: torch.dtype, rows: range | None = None) -> Tensor:
        found = self.tensors[name] if rows is None else self.tensors.rows(name, rows)
        return finite(found.to(dtype), name, self.path)


def _layer_sizes(shape: LlamaShape) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a layer's tensors by their names in the file."""
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


def _rows(shard: Shard) -> dict[str, range]:
    """Return the outputs of a rank, by the names of the matrices in the file."""
    size, heads, kv_heads = shard.shape.head_dim, shard.heads, shard.kv_heads
    keys = range(kv_heads.start * size, kv_heads.stop * size)
    hidden, inner = map(shard.outputs, (shard.shape.hidden_size, shard.shape.intermediate_size))
    return {
        "self_attn.q_proj.weight": range(heads.start * size, heads.stop * size),
        "self_attn.k_proj.weight": keys,
        "self_attn.v_proj.weight": keys,
        "self_attn.o_proj.weight": hidden,
        "mlp.gate_proj.weight": inner,
        "mlp.up_proj.weight": inner,
        "mlp.down_proj.weight": hidden,
    }


def _fused(tensors: Mapping[str, Tensor]) -> LayerWeights:
    return LayerWeights(
        qkv=torch.cat([tensors[f"self_attn.{part}_proj.weight"] for part in "qkv"]),
        out=tensors["self_attn.o_proj.weight"],
        gate=tensors["mlp.gate_proj.weight"],
        up=tensors["mlp.up_proj.weight"],
        down=tensors["mlp.down_proj.weight"],
        attention_norm=tensors["input_layernorm.weight"],
        mlp_norm=tensors["post_attention_layernorm.weight"],
    )
