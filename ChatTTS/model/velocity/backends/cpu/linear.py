"""A linear layer on the CPU kernels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ....kernels.cpu.library import Team


class PackedLinear(nn.Module):
    """A linear layer without bias, computed by the CPU kernels.

    It maps float32 [n, inputs] to float32 [n, outputs].

    Args:
        team: the worker threads that run the kernels.
        weight: [outputs, inputs].
        kind: the format in which the weights are packed.
    """

    def __init__(self, team: Team, weight: Tensor, kind: str) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self._team, self.kind = team, kind
        size = team.packed_bytes(kind, *weight.shape)
        self._packed = torch.empty(size, dtype=torch.uint8, device="cpu")
        team.pack(weight.float().contiguous(), kind, self._packed)

    def forward(self, rows: Tensor) -> Tensor:
        return self._team.product(rows.float(), self._packed, self.kind, self.out_features)
