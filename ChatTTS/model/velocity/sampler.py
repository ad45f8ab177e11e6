"""Draws of a step: every row with its own settings, key and history.

This is the plain way, on torch and the functions that the standard path uses; the CPU kernels have
a faster one that is tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import processors
from ..draws import DrawKey, uniforms
from ..generation import Sampling


@dataclass(frozen=True)
class Draw:
    """One row that draws.

    Attributes:
        position: index of the id among the generated ones.
        window: the last generated ids, int32 [at most 16, num_codebooks or more].
        end: the id that ends a sequence, forbidden before ``sampling.min_new``.
    """

    sampling: Sampling
    key: DrawKey
    position: int
    window: NDArray[np.int32]
    end: int


@dataclass(frozen=True)
class Drawn:
    """What came of it.

    Attributes:
        ids: int64 [rows, num_codebooks].
        logprobs: float32 [rows], under the plain logits, the mean over the num_codebooks.
        finite: bool [rows]; ids of a row without it mean nothing.
    """

    ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    finite: NDArray[np.bool_]


class Sampler(Protocol):
    """Logits to ids."""

    def __call__(self, logits: Tensor, rows: Sequence[Draw]) -> Drawn:
        """Draw from float32 ``logits`` [rows, num_codebooks, vocabulary]."""
        ...


class TorchSampler:
    """The reference, on any device."""

    def __call__(self, logits: Tensor, rows: Sequence[Draw]) -> Drawn:
        finite = logits.isfinite().flatten(1).all(dim=1)
        plain = torch.where(finite[:, None, None], logits, torch.zeros_like(logits))
        ids = self._draw(plain, rows)
        logprobs = plain.log_softmax(dim=-1).gather(-1, ids.unsqueeze(-1)).mean(dim=(1, 2))
        return Drawn(ids.cpu().numpy(), logprobs.cpu().numpy(), finite.cpu().numpy())

    def _draw(self, logits: Tensor, rows: Sequence[Draw]) -> Tensor:
        """Ids [rows, num_codebooks] from finite logits."""
        device, num_codebooks = logits.device, logits.shape[1]

        def column(values: list[Any], dtype: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=dtype, device=device).unsqueeze(-1)

        settings = [row.sampling for row in rows]
        given = column([s.temperature for s in settings], torch.float32)
        greedy = given == 0
        logits = processors.apply_temperature(logits, given.masked_fill(greedy, 1.0))
        penalty = column([[s.repetition_penalty] for s in settings], torch.float32)
        logits = torch.cat(
            [
                processors.penalise_repetition(
                    row_logits, _window(row, num_codebooks).to(device), row_penalty
                ).unsqueeze(0)
                for row_logits, row, row_penalty in zip(logits, rows, penalty, strict=True)
            ]
        ).nan_to_num()  # an extreme penalty overflows, and must not reach the draw
        logits = processors.keep_top(
            logits,
            column([[s.top_p] for s in settings], torch.float32),
            column([[s.top_k] for s in settings], torch.int64),
        )
        for place, row in enumerate(rows):
            if row.position < row.sampling.min_new:
                logits[place, :, row.end] = -torch.inf
        numbers = uniforms([r.key for r in rows], [r.position for r in rows], num_codebooks)
        drawn = processors.draw(logits, torch.from_numpy(numbers).to(device))
        return torch.where(greedy.squeeze(-1), logits.argmax(dim=-1), drawn)


def _window(row: Draw, num_codebooks: int) -> Tensor:
    """The history of a row, int64 [num_codebooks, n]."""
    return torch.from_numpy(row.window[:, :num_codebooks].T.astype(np.int64))
