"""A small random voice that reads phonemes: a conformance model with the recipe's tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ChatTTS.core import Chat
from recipes.voice.vocabulary import save_tokenizer

from .velocity_models import copy_checkpoint

DEFAULTS = {
    "language": "en",
    "pronunciation": "phonemes",
    "characters": "'?!",
    "alignment_heads": [[0, 0], [1, 1]],
}


def save_phoneme_voice(folder: Path, **defaults: object) -> Path:
    """Write the checkpoint below ``folder``; return the folder that holds its ``asset``."""
    checkpoint = copy_checkpoint(folder)
    config = checkpoint / "asset" / "config.json"
    values = json.loads(config.read_text("utf-8"))
    values["defaults"] = values.get("defaults", {}) | DEFAULTS | defaults
    config.write_text(json.dumps(values), "utf-8")
    save_tokenizer(checkpoint / "asset" / "tokenizer")
    return checkpoint


def load_phoneme_voice(checkpoint: Path, **options: Any) -> Chat:
    """Return the voice of a checkpoint, on one thread."""
    chat = Chat()
    chat.load_or_raise("custom", custom_path=checkpoint, device="cpu", num_threads=1, **options)
    return chat
