"""Sampling in torch: from logits and settings to ids, of which each is a draw.

The order is that of the published model: temperature, repetition penalty, top-p, top-k, forbidden
end; then a draw. The standard engine and velocity's ``TorchSampler`` call :func:`sample_rows`. The
C++ and CUDA kernels are tested against it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from . import processors
from .random_numbers import DrawKey, random_bits
from .sampling_params import SamplingParams


@dataclass(frozen=True)
class SamplingRow:
    """What the sampler reads of a row of a batch: one id is drawn for each codebook.

    Attributes:
        position: index of the id among the generated ones.
        window: the last generated ids, int32 [at most 16, num_codebooks or more].
        end: the id that ends a sequence, forbidden before ``sampling.min_new``.
    """

    sampling: SamplingParams
    key: DrawKey
    position: int
    window: NDArray[np.int32]
    end: int

    @property
    def forbidden(self) -> int:
        """The id that must not be drawn, or -1."""
        return self.end if self.position < self.sampling.min_new else -1


@dataclass(frozen=True)
class SamplingTensors:
    """The settings of a batch of rows.

    Attributes:
        temperature: float32 [rows, num_codebooks, 1]; 0 is greedy.
        top_p: float32 [rows, 1, 1].
        top_k: int [rows, 1, 1].
    """

    temperature: Tensor
    top_p: Tensor
    top_k: Tensor

    @classmethod
    def of(cls, settings: Sequence[SamplingParams], device: torch.device) -> SamplingTensors:
        """Return the settings of each row on ``device``."""

        def column(values: list[Any], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=device).unsqueeze(-1)

        return cls(
            temperature=column([s.temperature for s in settings], torch.float32),
            top_p=column([[s.top_p] for s in settings], torch.float32),
            top_k=column([[s.top_k] for s in settings], torch.int64),
        )


def sample_rows(logits: Tensor, rows: Sequence[SamplingRow]) -> tuple[Tensor, Tensor, Tensor]:
    """Draw one id for each row and codebook of float32 logits [rows, num_codebooks, vocabulary].

    No row depends on the others. The results are those of :func:`sample_ids`.
    """
    if logits.device.type == "mps":  # some versions add whole numbers of 32 bits alone
        logits = logits.cpu()
    device, num_codebooks = logits.device, logits.shape[1]
    settings = [row.sampling for row in rows]
    history = torch.from_numpy(_padded_windows(rows, num_codebooks)).to(device)
    counts = processors.count_repetitions(history, logits.shape[-1]).long()
    powers = np.array([_penalties(each.repetition_penalty) for each in settings], dtype=np.float32)
    return sample_ids(
        logits,
        SamplingTensors.of(settings, device),
        torch.from_numpy(powers).to(device).gather(1, counts.flatten(1)).view_as(counts),
        torch.tensor([row.forbidden for row in rows], device=device),
        torch.from_numpy(
            random_bits([row.key for row in rows], [row.position for row in rows], num_codebooks)
        ).to(device),
    )


@functools.lru_cache(maxsize=256)
def _penalties(penalty: float) -> tuple[float, ...]:
    """Return the powers of a repetition penalty from 0 on, in single precision.

    They are looked up, because the last bit of torch's powers depends on the place in a vector.
    """
    base = np.float64(np.float32(penalty))
    with np.errstate(over="ignore", under="ignore"):
        powers = base ** np.arange(processors.PENALTY_WINDOW + 1)
        return tuple(powers.astype(np.float32).tolist())


def _padded_windows(rows: Sequence[SamplingRow], num_codebooks: int) -> NDArray[np.int64]:
    """Return the histories [rows, num_codebooks, 16]; -1 where a shorter one has no id."""
    windows = np.full((len(rows), num_codebooks, processors.PENALTY_WINDOW), -1, dtype=np.int64)
    for window, row in zip(windows, rows, strict=True):
        window[:, : len(row.window)] = row.window[:, :num_codebooks].T
    return windows


def sample_ids(
    logits: Tensor,
    settings: SamplingTensors,
    factors: Tensor,
    forbidden: Tensor,
    bits: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw one id for each row and codebook.

    Args:
        logits: float32 [rows, num_codebooks, vocabulary].
        settings: of the rows.
        factors: of :func:`~.processors.apply_repetition_penalty`, in the shape of ``logits``.
        forbidden: int64 [rows], an id that must not be drawn, or -1.
        bits: int64 [rows, num_codebooks], the random bits of the draws.

    Returns:
        The ids, int64 [rows, num_codebooks]; their log-probabilities under the plain logits,
        float32 in this shape; and bool [rows], false where a logit of the row is not finite. Such a
        row is drawn from equal logits: its ids exist and mean nothing.
    """
    finite = logits.isfinite().flatten(1).all(dim=1)
    plain = torch.where(finite[:, None, None], logits, torch.zeros_like(logits))
    greedy = settings.temperature == 0
    logits = processors.apply_temperature(plain, settings.temperature.masked_fill(greedy, 1.0))
    logits = processors.apply_repetition_penalty(logits, factors)
    logits = logits.nan_to_num()  # an extreme penalty overflows, and must not reach the draw
    logits = processors.apply_top_p_top_k(logits, settings.top_p, settings.top_k)
    logits = processors.forbid(logits, forbidden)
    drawn = processors.sample(logits, bits)
    ids = torch.where(greedy.squeeze(-1), logits.argmax(dim=-1), drawn)
    return ids, processors.log_probabilities(plain, ids), finite
