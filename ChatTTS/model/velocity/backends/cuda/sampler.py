"""Draws of a step on the device, from settings that the host packs for each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....cuda.failures import on_host
from ....kernels.cuda.sampling import DrawState, draw_codes, draw_codes_torch, pack_draws
from ....sampling import Draw
from ...loaded_model import Drawn

# A program of the kernel holds all logits of a codebook in registers. Text vocabularies are larger.
_MAX_IDS = 4096


def draw_ids_of(
    logits: Tensor, state: DrawState, end: int, ids: Tensor, logprobs: Tensor, finite: Tensor
) -> None:
    """Draw with the kernel if it can hold the vocabulary; see ``draw_codes`` for the arguments."""
    draw = draw_codes if logits.shape[2] <= _MAX_IDS else draw_codes_torch
    draw(logits, state, end, ids, logprobs, finite)


class TritonSampler:
    """See :class:`~ChatTTS.model.velocity.loaded_model.Sampler`."""

    def __call__(self, logits: Tensor, rows: Sequence[Draw]) -> Drawn:
        count, num_codebooks, _ = logits.shape
        device = logits.device
        packed = pack_draws(rows, num_codebooks)
        state = DrawState(
            **{name: torch.from_numpy(values).to(device) for name, values in packed.items()}
        )
        whole: dict[str, Any] = {"dtype": torch.int32, "device": device}
        ids = torch.empty(count, num_codebooks, **whole)
        logprobs = torch.empty(count, num_codebooks, dtype=torch.float32, device=device)
        finite = torch.empty(count, dtype=torch.uint8, device=device)
        # All rows of a pass have one end.
        draw_ids_of(logits.contiguous(), state, rows[0].end, ids, logprobs, finite)
        return Drawn(
            on_host(ids).numpy().astype("int64"),
            logprobs.mean(dim=1).cpu().numpy(),
            finite.bool().cpu().numpy(),
        )
