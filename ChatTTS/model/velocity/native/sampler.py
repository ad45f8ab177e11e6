"""Draws on the CPU kernels; see :class:`~ChatTTS.model.velocity.sampler.TorchSampler`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ...draws import key_words
from ...native.library import DRAW, Team, address
from ...sampling import Draw
from ..sampler import Drawn


class NativeSampler:
    """Draws the ids of the reference, without sorting the whole vocabulary.

    Args:
        team: the threads to compute on.
    """

    def __init__(self, team: Team) -> None:
        self._team = team

    def __call__(self, logits: Tensor, rows: Sequence[Draw]) -> Drawn:
        logits = logits.contiguous()
        n, num_codebooks, size = logits.shape
        draws = np.array([_record(row) for row in rows], dtype=DRAW)
        temperatures = np.array([row.sampling.temperature for row in rows], dtype=np.float32)
        ids = np.empty((n, num_codebooks), dtype=np.int32)
        logprobs = np.zeros((n, num_codebooks), dtype=np.float32)
        self._team.library.velocity_sample(
            self._team.handle,
            address(logits),
            n,
            num_codebooks,
            size,
            address(draws),
            address(temperatures),
            address(ids),
            address(logprobs),
        )
        finite = np.all(ids >= 0, axis=1)
        return Drawn(np.maximum(ids, 0).astype(np.int64), logprobs.mean(axis=1), finite)


def _record(row: Draw) -> tuple[object, ...]:
    """Return a row as ``VelocityDraw``; the temperature is given for each codebook instead."""
    sampling, window = row.sampling, row.window
    seed_low, seed_high, stream, sample, utterance = key_words(row.key)
    return (
        0.0,
        sampling.top_p,
        sampling.repetition_penalty,
        min(sampling.top_k, 2**31 - 1),
        row.forbidden,
        row.position,
        seed_high << 32 | seed_low,
        stream,
        sample,
        utterance,
        len(window),
        window.strides[0] // 4 if len(window) else 0,
        address(window),
    )
