"""Helpers for the tests of the recipe of fine-tuning: small corpora and short runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ChatTTS.core import Chat
from recipes.fine_tune.corpus import Corpus, Line
from recipes.fine_tune.run import Run, Settings
from recipes.voice.training import Budget

from .adapter_tools import MODEL

CPU = torch.device("cpu")


def make_lines(count: int, speaker: np.ndarray, seed: int) -> tuple[Line, ...]:
    """Utterances with few different codes, which are quickly learned."""
    rng = np.random.default_rng(seed)
    return tuple(
        Line("hello the world.", rng.integers(3, size=(int(n), 4)), speaker)
        for n in rng.integers(8, 20, count)
    )


def make_corpus(chat: Chat) -> Corpus:
    """A corpus of random codes, with a random speaker."""
    torch.manual_seed(0)
    speaker = chat.sample_random_speaker()
    vector = chat.speaker.vector(speaker)
    sets = [make_lines(n, vector, seed) for seed, n in enumerate((6, 2, 4, 2))]
    return Corpus(speaker, *sets)


def make_run(out: Path, steps: int = 6, recordings: str = "nowhere", **settings: Any) -> Run:
    """A run on the small checkpoint."""
    given: dict[str, Any] = {
        "checkpoint": str(MODEL),
        "tokens": 200,
        "rank": 2,
        "alpha": 4.0,
        "rate": 1e-2,
    }
    return Run(out, Settings(recordings, **given | settings), CPU, Budget(steps=steps), workers=0)
