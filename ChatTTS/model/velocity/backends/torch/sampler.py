"""Draws of a step: each row with its settings, key and history.

:class:`TorchSampler` is the reference, on the recipe that the standard engine uses too. The CPU
kernels and the CUDA kernels have faster samplers, which are tested against it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....draws import uniforms
from ....processors import PENALTY_WINDOW, count_repetitions
from ....sampling import Draw, SamplingTensors, draw_ids
from ...loaded_model import Drawn


class TorchSampler:
    """The reference, on any device."""

    def __call__(self, logits: Tensor, rows: Sequence[Draw]) -> Drawn:
        device, num_codebooks = logits.device, logits.shape[1]
        settings = [row.sampling for row in rows]
        history = torch.from_numpy(_padded_windows(rows, num_codebooks)).to(device)
        counts = count_repetitions(history, logits.shape[-1]).long()
        powers = np.array([_powers(each.repetition_penalty) for each in settings], dtype=np.float32)
        factors = torch.from_numpy(powers).to(device).gather(1, counts.flatten(1)).view_as(counts)
        ids, logprobs, finite = draw_ids(
            logits,
            SamplingTensors.of(settings, device),
            factors,
            torch.tensor([row.forbidden for row in rows], device=device),
            uniforms([row.key for row in rows], [row.position for row in rows], num_codebooks),
        )
        mean = logprobs.mean(dim=1)
        return Drawn(ids.cpu().numpy(), mean.cpu().numpy(), finite.cpu().numpy())


@functools.lru_cache(maxsize=256)
def _powers(penalty: float) -> tuple[float, ...]:
    """Return the powers of a repetition penalty from 0 on, in single precision.

    They are looked up, because the last bit of torch's powers depends on the place in a vector.
    """
    base = np.float64(np.float32(penalty))
    with np.errstate(over="ignore", under="ignore"):
        powers = base ** np.arange(PENALTY_WINDOW + 1)
        return tuple(powers.astype(np.float32).tolist())


def _padded_windows(rows: Sequence[Draw], num_codebooks: int) -> NDArray[np.int64]:
    """Return the histories [rows, num_codebooks, 16]; -1 where a shorter one has no id."""
    windows = np.full((len(rows), num_codebooks, PENALTY_WINDOW), -1, dtype=np.int64)
    for window, row in zip(windows, rows, strict=True):
        window[:, : len(row.window)] = row.window[:, :num_codebooks].T
    return windows
