"""Rows that draw, with random logits, settings and histories."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling import SamplingRow
from ChatTTS.model.sampling_params import SamplingParams

TEMPERATURES = (0.0, 1e-12, 0.3, 0.7, 1.0, 5.0)
TOP_PS = (1e-6, 0.1, 0.5, 0.7, 0.95, 1.0)
TOP_KS = (1, 2, 3, 4, 20, 10_000)
PENALTIES = (0.5, 1.0, 1.05, 2.0, 1e30)
PLAIN = SamplingParams((1.0,) * 4, 1.0, 10_000, 1.0, 0, 100)
# The random number of the fourth codebook is exactly 0: it must not draw an impossible id.
ZERO_SEED = 1_343_428


def make_key(rng: np.random.Generator) -> DrawKey:
    return DrawKey(
        seed=int(rng.integers(-(2**62), 2**62)),
        kind=Pass(int(rng.integers(0, 2))),
        utterance=int(rng.integers(0, 2**32)),
        sample=int(rng.integers(0, 2**16)),
        attempt=int(rng.integers(0, 2**16)),
    )


def make_rows(
    seed: int, count: int, form: tuple[int, int], history: int | None = None
) -> tuple[Tensor, list[SamplingRow]]:
    """Make logits [count, num_codebooks, vocabulary] and rows with various settings and one end id.

    The end is probable, so that forbidding it makes a difference.
    """
    rng = np.random.default_rng(seed)
    num_codebooks, size = form
    spread = rng.choice([0.3, 2.0, 8.0], (count, 1, 1))
    logits = (rng.standard_normal((count, num_codebooks, size)) * spread).astype(np.float32)
    end = int(rng.integers(0, size))
    logits[:, :, end] = logits.max(axis=-1) - rng.random((count, num_codebooks))
    best = logits.argsort(axis=-1)[:, :, ::-1]
    rows = []
    for row in range(count):
        length = int(rng.integers(0, 17)) if history is None else history
        # Histories repeat ids, and hold probable ones.
        few = np.concatenate([best[row, :, :4], rng.integers(0, size, (num_codebooks, 3))], axis=1)
        places = rng.integers(0, few.shape[1], (length, num_codebooks))
        window = np.zeros((length, num_codebooks + 1), dtype=np.int32)
        window[:, :num_codebooks] = few[np.arange(num_codebooks), places]
        hot = (
            rng.choice(TEMPERATURES, num_codebooks)
            if row % 2
            else [rng.choice(TEMPERATURES)] * num_codebooks
        )
        sampling = SamplingParams(
            temperature=tuple(float(value) for value in hot),
            top_p=float(rng.choice(TOP_PS)),
            top_k=int(rng.choice(TOP_KS)),
            repetition_penalty=float(rng.choice(PENALTIES)),
            min_new=int(rng.integers(0, 60)),
            max_new=100,
        )
        rows.append(SamplingRow(sampling, make_key(rng), int(rng.integers(0, 60)), window, end))
    return torch.from_numpy(logits), rows
