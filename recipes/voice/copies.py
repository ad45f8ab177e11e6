"""The stage that copies speech through codec and vocoder, so that judges can hear each alone."""

from __future__ import annotations

import logging
import wave
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .codec import copied, load_codec
from .features import log_mel
from .pieces import audible
from .run import Run
from .takes import Take
from .units import SAMPLE_RATE
from .vocoder import load_vocoder

logger = logging.getLogger(__name__)

_COUNT = 20  # takes of each language


@torch.inference_mode()
def main(run: Run) -> None:
    """Write ``copies/WAY_LANGUAGE/NN.wav`` and ``.txt``, for the last takes of each language.

    The ways are the teacher itself, its mels through the vocoder, and through the codec as well.
    """
    vocoder, codec, mel_of = load_vocoder(run), load_codec(run), log_mel(run.device)
    for take, name in _chosen(run.takes()):
        mel = mel_of(torch.from_numpy(take.samples)[None].to(run.device))
        mel = mel[..., : mel.shape[-1] // 2 * 2]
        ways = {
            "teacher": torch.from_numpy(take.samples),
            "vocoder": vocoder(audible(mel))[0],
            "codec": vocoder(copied(codec, mel))[0],
        }
        for way, samples in ways.items():
            folder = run.out / "copies" / f"{way}_{take.line.language}"
            _write(folder / f"{name}.wav", samples)
            (folder / f"{name}.txt").write_text(take.line.text, encoding="utf-8")
    logger.info("%s holds the copies", run.out / "copies")


def _chosen(takes: Iterable[Take]) -> list[tuple[Take, str]]:
    """Return the last takes of each language, with the names of their files."""
    by_language: dict[str, list[Take]] = {}
    for take in takes:
        by_language.setdefault(take.line.language, []).append(take)
    return [
        (take, f"{number:02d}")
        for spoken in by_language.values()
        for number, take in enumerate(spoken[-_COUNT:])
    ]


def _write(path: Path, samples: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    scaled = (samples.clamp(-1, 1) * 32767).round().to("cpu", torch.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE)
        file.writeframes(np.ascontiguousarray(scaled.numpy()).tobytes())
