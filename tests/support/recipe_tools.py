"""Helpers for the tests of the bundled voice's recipe: tones for speech, and small networks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ChatTTS.config import ConvNetConfig, DVAEConfig, MelConfig, QuantizerConfig
from ChatTTS.model.dvae import DVAE
from recipes.bundled_voice.gpt import NUM_CODES
from recipes.bundled_voice.prompts import Coded
from recipes.bundled_voice.speakers import voice_speaker
from recipes.bundled_voice.training import Budget, train
from recipes.bundled_voice.types import VOICES, Spoken

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
    """Return a gliding tone with noise, which stands for speech."""
    random = np.random.default_rng(index)
    time = np.arange(int(seconds * 24_000)) / 24_000
    tone = np.sin(2 * np.pi * (150 + 80 * index % 400 + 60 * time) * time)
    samples = (0.3 * tone + 0.02 * random.standard_normal(len(time))).astype(np.float32)
    return Spoken(
        "a tone.", "rms", 5, samples, np.zeros(7, np.int32), np.zeros(len(time) // 512, np.int8)
    )


def trained(task: Any, out: Path, budget: Budget, **options: Any) -> bool:
    """Run ``train`` on the CPU with a seed."""
    return train(task, out, budget, device=CPU, seed=7, **options)


def lines(out: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of a stage's log."""
    return [json.loads(line) for line in (out / "log" / f"{name}.jsonl").read_text().splitlines()]


def make_item(text: str = "hi you.", frames: int = 14, seed: int = 0, voice: str = "rms") -> Coded:
    rng = np.random.default_rng(seed)
    return Coded(
        text=text,
        voice=voice,
        speed=3,
        point=voice_speaker(voice).point,
        is_voice=True,
        codes=rng.integers(NUM_CODES, size=(frames, 4)).astype(np.int16),
        starts=np.linspace(0, frames - 1, len(text)).astype(np.int32),
        sounds=np.sort(rng.integers(5, size=frames)).astype(np.int8),
    )


def make_codec() -> tuple[DVAE, DVAEConfig]:
    stack = ConvNetConfig(idim=16, odim=16, hidden=16, n_layer=1, bn_dim=16)
    config = DVAEConfig(
        encoder=replace(stack, odim=32),
        decoder=stack,
        vq=QuantizerConfig(dim=32),
    )
    return DVAE(config, MelConfig()).eval(), config


def make_speech(count: int) -> list[Spoken]:
    rng = np.random.default_rng(0)
    return [
        Spoken(
            "hello.",
            VOICES[n % 4],
            n % 10,
            (0.1 * rng.standard_normal(512 * (8 + n) + 100)).astype(np.float32),
            np.arange(6, dtype=np.int32),
            np.zeros(8 + n, dtype=np.int8),
        )
        for n in range(count)
    ]
