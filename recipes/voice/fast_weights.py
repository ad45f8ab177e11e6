"""The teacher's weights for torch, from its ONNX model, in a file small enough to carry.

The model has integers of 8 bits with scales, named after the module of a node or of a tensor. The
file keeps the integers, in torch's layout, and what is not quantised as float16. An LSTM has the
gates in the order input, output, forget, cell there, and input, forget, cell, output in torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

WEIGHTS_FILE, VOICES_FILE = "teacher.npz", "voices.npz"

# The modules that nodes name without the one around them.
_OF_PREDICTOR = {"F0", "N", "F0_proj", "N_proj", "shared"}
_GATES = (0, 2, 3, 1)
_NOTHING: Array = np.zeros(0, np.float32)  # of an input that nodes compute
_LAYER = "encoder.albert_layer_groups.0.albert_layers.0"
_RANK = 24  # of a voice's style vectors; what is left of them is below 1e-4
_SCALE, _ZERO = ".scale", ".zero"


class _Quantised(NamedTuple):
    """Integers with the scale and the zero of all of them or of each row, ready to broadcast."""

    values: Array
    scale: Array
    zero: Array

    @classmethod
    def of(cls, values: Array, scale: Array, zero: Array) -> _Quantised:
        shape = (-1, *[1] * (values.ndim - 1))
        return cls(values, scale.reshape(shape), zero.reshape(shape))


def pack(model: Path, path: Path) -> None:
    """Write the weights of an ONNX model."""
    packed: dict[str, Any] = {}
    for name, weight in _weights(model):
        if isinstance(weight, _Quantised):
            packed[name], packed[name + _SCALE], packed[name + _ZERO] = weight
        else:
            packed[name] = weight.astype(np.float16)
    np.savez_compressed(path, **packed)


def unpack(path: Path) -> dict[str, Tensor]:
    """Return the weights that :func:`pack` wrote, as float32."""
    with np.load(path, allow_pickle=False) as packed:
        arrays = {name: torch.from_numpy(packed[name]) for name in packed.files}
    weights = {}
    for name, values in arrays.items():
        if name.endswith((_SCALE, _ZERO)):
            continue
        weights[name] = values.float()
        if name + _SCALE in arrays:
            weights[name] = (weights[name] - arrays[name + _ZERO].float()) * arrays[name + _SCALE]
    return weights


def pack_voices(tables: NDArray[np.float32], path: Path) -> None:
    """Write the style vectors of all voices, [voices, rows, 256].

    The rows of a voice are sums of few vectors, so few numbers tell them.
    """
    left, values, right = np.linalg.svd(tables.astype(np.float64), full_matrices=False)
    rows = (left * values[:, None])[..., :_RANK].astype(np.float32)
    np.savez_compressed(path, rows=rows, vectors=right[:, :_RANK].astype(np.float32))


def unpack_voices(path: Path) -> NDArray[np.float32]:
    """Return the style vectors that :func:`pack_voices` wrote."""
    with np.load(path, allow_pickle=False) as packed:
        tables: NDArray[np.float32] = packed["rows"] @ packed["vectors"]
    return tables


def _weights(model: Path) -> Iterator[tuple[str, Array | _Quantised]]:
    """Yield the path in torch and the values of each weight."""
    import onnx

    graph = onnx.load(model).graph
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    dequantised = {n.input[0]: n.input for n in graph.node if n.op_type == "DequantizeLinear"}
    known = set()
    for node in graph.node:
        module = _module(node.name)
        given = [arrays.get(name, _NOTHING) for name in node.input]
        if node.op_type in ("MatMulInteger", "ConvInteger"):
            quantised = node.input[1]
            if quantised in known:  # the layers of the Transformer share their weights
                continue
            known.add(quantised)
            scale = arrays[quantised.removesuffix("_quantized") + "_scale"]
            values = given[1].T if node.op_type == "MatMulInteger" else given[1]
            yield f"{module}.weight", _Quantised.of(values, scale, given[3])
        elif node.op_type == "Gather" and node.output[0] in dequantised:
            _, scale, zero = dequantised[node.output[0]]
            yield f"{module}.weight", _Quantised.of(given[0], arrays[scale], arrays[zero])
        elif node.op_type == "DynamicQuantizeLSTM":
            for name, weight in _lstm(given):
                yield f"{module}.{name}", weight
        elif node.op_type in ("Conv", "ConvTranspose") and "stft" not in module:
            yield f"{module}.weight", given[1]
        elif node.op_type == "MatMul" and given[1].size:
            yield f"{module}.weight", given[1].T
    for tensor, values in arrays.items():
        if tensor.endswith((".weight", ".bias", ".gamma", ".beta")) or ".alpha" in tensor:
            path = tensor.removeprefix("decoder.").split(".", 1)[1]
            yield path.replace(_LAYER, "layer"), values


def _lstm(given: Sequence[Array]) -> Iterator[tuple[str, Array | _Quantised]]:
    """Yield the name in torch and the values of each weight, of both directions."""
    weights = {"ih": (given[1], given[8], given[9]), "hh": (given[2], given[10], given[11])}
    for direction, suffix in enumerate(("_l0", "_l0_reverse")):
        biases = np.split(given[3][direction], 2)
        for (kind, parts), bias in zip(weights.items(), biases, strict=True):
            values, scale, zero = (part[direction] for part in parts)
            yield f"weight_{kind}{suffix}", _Quantised.of(_gates(values.T), scale, zero)
            yield f"bias_{kind}{suffix}", _gates(bias)


def _gates(values: Array) -> Array:
    """Return rows [4 n, ...] with the gates in torch's order."""
    parts = np.split(values, 4)
    return np.concatenate([parts[gate] for gate in _GATES])


def _module(node: str) -> str:
    """Return the path in torch of what a node is part of: a.0.1 of /encoder/a.0/a.0.1/Conv."""
    parts = node.removeprefix("/decoder").removeprefix("/encoder").split("/")[1:-1]
    parts = parts[parts[:1] == ["decoder"] :]
    following = [*parts, ""][1:]
    inner = [
        part
        for part, after in zip(parts, following, strict=True)
        if not after.startswith(f"{part}.")
    ]
    outer = ["predictor"] if inner and inner[0].split(".")[0] in _OF_PREDICTOR else []
    return ".".join(outer + inner).replace(_LAYER, "layer")
