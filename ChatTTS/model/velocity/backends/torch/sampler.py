"""Draws in torch: the reference of the faster samplers of the CPU and CUDA kernels."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ....sampling import SamplingRow, sample_rows
from ...loaded_model import SamplerOutput


class TorchSampler:
    """The reference, on any device."""

    def __call__(self, logits: Tensor, rows: Sequence[SamplingRow]) -> SamplerOutput:
        ids, logprobs, finite = sample_rows(logits, rows)
        return SamplerOutput(
            ids.cpu().numpy(), logprobs.mean(dim=1).cpu().numpy(), finite.cpu().numpy()
        )
