"""Adapters as the CUDA kernels read them: those of all adapters side by side, matrix by matrix."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from ....kernels.cuda.low_rank import LowRanks
from ....llama.config import MATRICES, LlamaShape, projections
from ....lora.adapter import Adapter

# The matrices of a layer on these kernels, and the projections that they stack.
_STACKED = {**MATRICES, "gate_up": MATRICES["gate"] + MATRICES["up"]}


def pack_adapters(
    adapters: Sequence[Adapter], shape: LlamaShape, layer: int, name: str, device: torch.device
) -> LowRanks | None:
    """Return what adapters add to a matrix of a layer, on the device; ``None`` if that is nothing.

    Args:
        name: of the matrix: ``qkv``, ``out``, ``gate_up`` or ``down``.
    """
    stacked = _STACKED[name]
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
