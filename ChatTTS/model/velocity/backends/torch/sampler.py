"""Draws in torch: the reference of the faster samplers of the CPU and CUDA kernels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ....sampling import Draw, draw_rows
from ...loaded_model import Drawn


class TorchSampler:
    """The reference, on any device."""

    def __call__(self, logits: Tensor, rows: Sequence[Draw]) -> Drawn:
        ids, logprobs, finite = draw_rows(logits, rows)
        return Drawn(ids.cpu().numpy(), logprobs.mean(dim=1).cpu().numpy(), finite.cpu().numpy())
