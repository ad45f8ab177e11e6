"""The Llama's weights as a checkpoint holds them, fused for the engine, one layer at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from ...errors import EngineUnavailableError
from ...weights.tensor_file import TensorFile
from ...weights.tensors import check_tensors, finite
from .config import MATRICES, LlamaShape, module_of, projections
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
        norm: tuple[int, ...] = (shape.hidden_size,)
        sizes = {
            "input_layernorm.weight": norm,
            "post_attention_layernorm.weight": norm,
        }
        sizes |= {_file_name(name): size for name, size in projections(shape).items()}
        expected = {"norm.weight": norm}
        for index in range(shape.num_hidden_layers):
            expected |= {f"layers.{index}.{name}": size for name, size in sizes.items()}
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

        def read(name: str, own: range | None = None) -> Tensor:
            return self._read(f"layers.{index}.{name}", dtype, own)

        def fused(parts: tuple[str, ...]) -> Tensor:
            found = [read(_file_name(part), rows.get(part)) for part in parts]
            return found[0] if len(found) == 1 else torch.cat(found)

        return LayerWeights(
            **{matrix: fused(parts) for matrix, parts in MATRICES.items()},
            attention_norm=read("input_layernorm.weight"),
            mlp_norm=read("post_attention_layernorm.weight"),
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


def _file_name(projection: str) -> str:
    return f"{module_of(projection)}.{projection}.weight"


def _rows(shard: Shard) -> dict[str, range]:
    """Return the outputs of a rank, by projection."""
    size, heads, kv_heads = shard.shape.head_dim, shard.heads, shard.kv_heads
    keys = range(kv_heads.start * size, kv_heads.stop * size)
    rows = {name: shard.outputs(count) for name, (count, _) in projections(shard.shape).items()}
    return rows | {
        "q_proj": range(heads.start * size, heads.stop * size),
        "k_proj": keys,
        "v_proj": keys,
    }
