"""Draws of a step on the device, from settings that the host packs for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....cuda.failures import on_host
from ....kernels.cuda.sampling import SamplingState, pack_sampling, sample_codes
from ....sampling import SamplingRow
from ...loaded_model import SamplerOutput


class TritonSampler:
    """See :class:`~ChatTTS.model.velocity.loaded_model.Sampler`."""

    def __call__(self, logits: Tensor, rows: Sequence[SamplingRow]) -> SamplerOutput:
        count, num_codebooks, _ = logits.shape
        device = logits.device
        packed = pack_sampling(rows, num_codebooks)
        state = SamplingState(
            **{name: torch.from_numpy(values).to(device) for name, values in packed.items()}
        )
        whole: dict[str, Any] = {"dtype": torch.int32, "device": device}
        ids = torch.empty(count, num_codebooks, **whole)
        logprobs = torch.empty(count, num_codebooks, dtype=torch.float32, device=device)
        finite = torch.empty(count, dtype=torch.uint8, device=device)
        # All rows of a pass have one end.
        sample_codes(logits.contiguous(), state, rows[0].end, ids, logprobs, finite)
        return SamplerOutput(
            on_host(ids).numpy().astype("int64"),
            logprobs.mean(dim=1).cpu().numpy(),
            finite.bool().cpu().numpy(),
        )
