"""Draws on the CPU kernels. The reference is ``TorchSampler``."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ....kernels.cpu.library import DRAW, Team, addresses
from ....random_numbers import key_words
from ....sampling import SamplingRow
from ...loaded_model import SamplerOutput


class NativeSampler:
    """Draws the ids of the reference, without sorting the whole vocabulary.

    Args:
        team: the threads to compute on.
    """

    def __init__(self, team: Team) -> None:
        self._team = team

    def __call__(self, logits: Tensor, rows: Sequence[SamplingRow]) -> SamplerOutput:
        logits = logits.contiguous()
        n, num_codebooks, size = logits.shape
        windows = addresses(*[row.window for row in rows])
        records, settings = [], []
        for row, window in zip(rows, windows, strict=True):
            records.append(_record(row, window))
            settings.append(row.sampling.temperature)
        draws, temperatures = np.array(records, dtype=DRAW), np.array(settings, dtype=np.float32)
        ids = np.empty((n, num_codebooks), dtype=np.int32)
        logprobs = np.zeros((n, num_codebooks), dtype=np.float32)
        self._team.library.chattts_sample(
            self._team.handle,
            logits.data_ptr(),
            n,
            num_codebooks,
            size,
            *addresses(draws.view(np.uint8), temperatures, ids, logprobs),
        )
        finite = np.logical_and.reduce(ids >= 0, axis=1)
        means = np.add.reduce(logprobs, axis=1) / np.float32(num_codebooks)
        return SamplerOutput(np.maximum(ids, 0).astype(np.int64), means, finite)


def _record(row: SamplingRow, window: int) -> tuple[object, ...]:
    """Return a row as ``NativeDraw``; the temperature is given for each codebook instead.

    Args:
        window: its address.
    """
    sampling, length = row.sampling, len(row.window)
    seed_low, seed_high, stream, sample, utterance = _words(row.key)
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
        length,
        row.window.strides[0] // 4 if length else 0,
        window,
    )


# A key is that of every draw of its sequence.
_words = functools.lru_cache(maxsize=1024)(key_words)
