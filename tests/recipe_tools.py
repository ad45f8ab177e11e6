"""What the tests of the bundled voice's recipe share: tones for speech, small networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ChatTTS.config import ConvNetConfig, DVAEConfig, QuantizerConfig
from recipes.bundled_voice.training import Budget, train
from recipes.bundled_voice.types import Spoken

CPU = torch.device("cpu")
SMALL = DVAEConfig(
    encoder=ConvNetConfig(idim=24, odim=32, hidden=16, n_layer=1, bn_dim=16),
    decoder=ConvNetConfig(idim=16, odim=24, hidden=16, n_layer=1, bn_dim=16),
    vq=QuantizerConfig(dim=32),
)


def tones() -> list[Spoken]:
    """Six short utterances of different lengths."""
    return [_tone(index, 0.4 + 0.1 * index) for index in range(6)]


def _tone(index: int, seconds: float) -> Spoken:
    """A tone that glides, with noise: as much of speech as these tests need."""
    random = np.random.default_rng(index)
    time = np.arange(int(seconds * 24_000)) / 24_000
    tone = np.sin(2 * np.pi * (150 + 80 * index % 400 + 60 * time) * time)
    samples = (0.3 * tone + 0.02 * random.standard_normal(len(time))).astype(np.float32)
    return Spoken(
        "a tone.", "rms", 5, samples, np.zeros(7, np.int32), np.zeros(len(time) // 512, np.int8)
    )


def trained(task: Any, out: Path, budget: Budget, **options: Any) -> bool:
    """``train`` on the CPU with a seed."""
    return train(task, out, budget, device=CPU, seed=7, **options)


def lines(out: Path, name: str) -> list[dict[str, Any]]:
    """The log of a stage."""
    return [json.loads(line) for line in (out / "log" / f"{name}.jsonl").read_text().splitlines()]
