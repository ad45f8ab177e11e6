"""Adapters as the CUDA kernels read them: those of all adapters side by side, matrix by matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from ....kernels.cuda.low_rank import LowRanks
from ....llama.config import LlamaShape, projections
from ....lora.adapter import Adapter

# The matrices of a layer on these kernels, and the projections that they stack.
_STACKED = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "out": ("o_proj",),
    "gate_up": ("gate_proj", "up_proj"),
    "down": ("down_proj",),
}


@dataclass(frozen=True)
class LayerAdapters:
    """The additions of adapters to the matrices of a layer; ``None`` where there are none."""

    qkv: LowRanks | None = None
    out: LowRanks | None = None
    gate_up: LowRanks | None = None
    down: LowRanks | None = None


NO_ADAPTERS = LayerAdapters()


def pack_adapters(
    adapters: Sequence[Adapter], shape: LlamaShape, device: torch.device
) -> Iterator[LayerAdapters]:
    """Yield what adapters add to each layer of a Llama, on the device."""
    for layer in range(shape.num_hidden_layers):
        yield LayerAdapters(
            **{
                name: _packed(adapters, shape, layer, stacked, device)
                for name, stacked in _STACKED.items()
            }
        )


def _packed(
    adapters: Sequence[Adapter],
    shape: LlamaShape,
    layer: int,
    stacked: Sequence[str],
    device: torch.device,
) -> LowRanks | None:
    products = [adapter.products.get((layer, name)) for adapter in adapters for name in stacked]
    ranks = [0 if product is None else product.rank for product in products]
    if not any(ranks):
        return None
    there = [product for product in products if product is not None]
    wide = max(projections(shape)[name][0] for name in stacked)
    up = torch.zeros(sum(ranks), wide, dtype=torch.float32, device="cpu")
    first = 0
    for product in there:
        up[first : first + product.rank, : len(product.up)] = product.up.t()
        first += product.rank
    starts = torch.tensor([0, *accumulate(ranks)], dtype=torch.int32, device="cpu")
    return LowRanks(
        down=torch.cat([product.down for product in there]).to(device),
        up=up.to(device),
        starts=starts.to(device),
        stacked=len(stacked),
        most=max(ranks),
    )
