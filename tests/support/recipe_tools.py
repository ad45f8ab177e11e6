"""Helpers for the tests of the voice's recipe: tones for speech, random codes, small networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ChatTTS.config import ConvNetConfig, DVAEConfig, QuantizerConfig
from recipes.voice.coded import NOBODY, Coded
from recipes.voice.language_model import NUM_CODES
from recipes.voice.styles import COORDINATES
from recipes.voice.training import Budget, train

CPU = torch.device("cpu")
SMALL = DVAEConfig(
    encoder=ConvNetConfig(idim=24, odim=32, hidden=16, n_layer=1, bn_dim=16),
    decoder=ConvNetConfig(idim=16, odim=24, hidden=16, n_layer=1, bn_dim=16),
    vq=QuantizerConfig(dim=32),
)


def tones() -> list[NDArray[np.float32]]:
    """Six short utterances of different lengths."""
    return [_tone(index, 0.4 + 0.1 * index) for index in range(6)]


def _tone(index: int, seconds: float) -> NDArray[np.float32]:
    """Return a gliding tone with noise, which stands for speech."""
    random = np.random.default_rng(index)
    time = np.arange(int(seconds * 24_000)) / 24_000
    tone = np.sin(2 * np.pi * (150 + 80 * index % 400 + 60 * time) * time)
    samples: NDArray[np.float32] = (0.3 * tone + 0.02 * random.standard_normal(len(time))).astype(
        np.float32
    )
    return samples


def trained(task: Any, out: Path, budget: Budget, **options: Any) -> bool:
    """Run ``train`` on the CPU with a seed."""
    return train(task, out, budget, device=CPU, seed=7, **options)


def lines(out: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of a stage's log."""
    return [json.loads(line) for line in (out / "log" / f"{name}.jsonl").read_text().splitlines()]


def make_item(
    symbols: tuple[str, ...] = ("h", "ˈ", "A", "[laugh]", "."),
    frames: int = 9,
    person: int = NOBODY,
    seed: int = 0,
) -> Coded:
    """Return an utterance of random codes."""
    random = np.random.default_rng(seed)
    starts = np.sort(random.integers(0, frames, len(symbols))).astype(np.int32)
    starts[0] = 1
    codes = random.integers(0, NUM_CODES, (frames, 4)).astype(np.int16)
    place = random.standard_normal(COORDINATES).astype(np.float32)
    return Coded(symbols, np.maximum.accumulate(starts), codes, place, person, 3)
