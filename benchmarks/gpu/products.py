"""Time products of few rows: this package's kernel and the library's product.

Both include the norm, gate and addition that belong to the product. The results decide up to how
many rows ``layers.py`` uses the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from ChatTTS.config import GPTConfig
from ChatTTS.model.cuda import graphs
from ChatTTS.model.kernels.cuda.products import product
from ChatTTS.model.velocity.backends.cuda.operations import SKINNY_ROWS, library_product

from .scale import Scale, Task
from .timing import device_seconds

_EPS = 1e-6
_WAYS = ("kernel", "library", "bare")


@dataclass(frozen=True)
class Kind:
    """One of a layer's products, whose matrix stacks some projections."""

    inputs: int
    outputs: int
    normed: bool = False
    gated: bool = False
    added: bool = False
    stacked: int = 1


def kinds(gpt: GPTConfig) -> dict[str, Kind]:
    """Return the products of a layer, by the names of their matrices."""
    hidden, inner = gpt.hidden_size, gpt.intermediate_size
    return {
        "qkv": Kind(hidden, 3 * hidden, normed=True, stacked=3),
        "out": Kind(hidden, hidden, added=True),
        "gate_up": Kind(hidden, inner, normed=True, gated=True, stacked=2),
        "down": Kind(inner, hidden, added=True),
    }


@torch.inference_mode()
def measure(task: Task, dtype: str) -> None:
    """Record microseconds of each product by method, and each method's sum over a layer."""
    scale, record = task.scale, task.record
    record.put(dtype=dtype, skinny_rows=SKINNY_ROWS)
    capturer = graphs.CudaGraphCapturer(task.device, advice="end what else uses the GPU")
    results: dict[str, Any] = {}
    for rows in scale.product_rows:
        each = {
            name: _ways(scale, kind, rows, getattr(torch, dtype), capturer)
            for name, kind in kinds(scale.gpt).items()
        }
        sums = {way: sum(own[way] for own in each.values()) for way in _WAYS}
        results[str(rows)] = {"us": each, "layer_us": sums}
        record.put(rows=results, kernel_wins_up_to=_wins(results))


def _wins(results: dict[str, Any]) -> int:
    """Return the largest number of rows up to which the kernel is never slower than the library."""
    best = 0
    for rows, found in results.items():
        sums = found["layer_us"]
        if sums["kernel"] > sums["library"]:
            break
        best = int(rows)
    return best


def _ways(
    scale: Scale, kind: Kind, rows: int, dtype: torch.dtype, capturer: graphs.GraphCapturer
) -> dict[str, float]:
    """Return microseconds of one product by method.

    The methods are the kernel, the library with norm, gate and addition, and the library's product
    alone. There are more weights than the caches hold, so each is read from memory.
    """
    device = torch.device(scale.device)
    stacked = kind.outputs * (1 + kind.gated)
    count = -(-scale.spread_bytes // (stacked * kind.inputs * dtype.itemsize))
    weights = [
        torch.randn(stacked, kind.inputs, device=device).mul_(kind.inputs**-0.5).to(dtype)
        for _ in range(count)
    ]
    x = torch.randn(rows, kind.inputs, device=device).to(dtype)
    norm = (torch.ones(kind.inputs, dtype=dtype, device=device), _EPS) if kind.normed else None
    residual = torch.zeros(rows, kind.outputs, dtype=dtype, device=device) if kind.added else None
    given: dict[str, Any] = {"norm": norm, "residual": residual, "gated": kind.gated}
    ways: dict[str, Callable[[Tensor], Any]] = {
        "kernel": lambda weight: product(x, weight, **given),
        "library": lambda weight: library_product(x, weight, **given),
        "bare": lambda weight: linear(x, weight),
    }
    found = {name: _seconds(way, weights, capturer, scale.rounds) for name, way in ways.items()}
    nbytes = weights[0].nbytes
    return {name: 1e6 * own for name, own in found.items()} | {
        "kernel_gb_s": nbytes / found["kernel"] / 1e9
    }


def _seconds(
    way: Callable[[Tensor], Any], weights: list[Tensor], capturer: graphs.GraphCapturer, rounds: int
) -> float:
    """Return the seconds of one product, from a CUDA graph of many, as a step has them."""

    def work() -> None:
        for weight in weights:
            way(weight)

    graph = capturer.capture(work)
    own = device_seconds(graph.replay, weights[0].device, rounds)
    return median(own) / len(weights)
