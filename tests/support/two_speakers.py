"""A small random voice that reads phonemes, with a speaker for English and one for Chinese."""

from __future__ import annotations

from pathlib import Path

import torch

from ChatTTS.config import Config
from ChatTTS.model.speaker import Speaker

from .phoneme_voice import save_phoneme_voice
from .places import DATA

ENGLISH, CHINESE = "anna", "lin"
DEFAULTS = {"speaker": ENGLISH, "language_speakers": {"zh": CHINESE}, "language": None}


def speaker_strings() -> dict[str, str]:
    """Return the speaker strings by their names; each vector has one coordinate that is not 0."""
    width = Config.from_file(DATA / "model-a" / "asset" / "config.json").gpt.hidden_size
    speaker, vectors = Speaker(width, "", torch.device("cpu")), torch.eye(width)
    return {name: speaker.encode(vectors[i]) for i, name in enumerate((ENGLISH, CHINESE))}


def save_two_speakers(folder: Path) -> Path:
    """Write the checkpoint below ``folder``; return the folder that holds its ``asset``."""
    return save_phoneme_voice(folder, speakers=speaker_strings(), **DEFAULTS)
