"""Adapters of random numbers for one product of a layer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda.low_rank import LowRanks

from .inputs import Inputs
from .products import Kind

# Of the adapters, for each projection.
_RANKS = (16, 5)


def random_ranks(given: Inputs, kind: Kind) -> LowRanks:
    """Return two adapters of different ranks, on the CPU."""
    ranks = [rank for rank in _RANKS for _ in range(kind.stacked)]
    wide = kind.outputs // 3 if kind.stacked == 3 else kind.outputs
    single = torch.float32
    return LowRanks(
        down=given.normal(sum(ranks), kind.inputs, dtype=single) * kind.inputs**-0.5,
        up=given.normal(sum(ranks), wide, dtype=single) * max(_RANKS) ** -0.5,
        starts=torch.tensor([0, *ranks]).cumsum(0).int(),
        stacked=kind.stacked,
        most=max(_RANKS),
    )


def on_device(low: LowRanks, device: torch.device) -> LowRanks:
    """Return copies on a device."""
    return replace(
        low, down=low.down.to(device), up=low.up.to(device), starts=low.starts.to(device)
    )


def adapters_of(rows: int, device: torch.device) -> Tensor:
    """Return none and both adapters by turns, int32 [rows]."""
    return (torch.arange(rows) % (len(_RANKS) + 1) - 1).to(device, torch.int32)
