"""The stages of the recipe, by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

from .run import Run


@dataclass(frozen=True)
class Stage:
    """A part of the recipe.

    Attributes:
        module: the module whose ``main`` does it.
        what: one line that says what it does.
        share: of the minutes of `all`; 0 for a stage that does not train.
    """

    module: str
    what: str
    share: float = 0.0


STAGES: Mapping[str, Stage] = {
    "lines": Stage("lines", "what the teacher will say, as phonemes, kept under lines/"),
    "speech": Stage("corpus", "lines spoken by the teacher, kept under speech/"),
    "codec": Stage("codec", "speech to codes and back to mels", 0.15),
    "vocoder": Stage("vocoder", "mels to sound", 0.2),
    "copies": Stage("copies", "speech through codec and vocoder, as files to judge"),
    "codes": Stage("coded", "speech as codes of the frozen codec, kept under codes/"),
    "gpt": Stage("gpt", "phonemes to codes: the language model", 0.53),
    "decoder": Stage("decoder", "the language model's hidden states to mels and sound", 0.12),
    "export": Stage("export", "everything into asset/, as `load` wants it"),
    "voices": Stage("recast", "the named voices chosen anew, on the weights of --known"),
    "recite": Stage("recite", "held-out sentences in the voice, as files to judge"),
    "all": Stage("session", "all of them, speech and training at once, within --minutes"),
    "gpu": Stage("gpu_session", "all up to the decoder, at once on a GPU, within --minutes"),
}


def run_stage(name: str, run: Run) -> None:
    """Run a stage; other stages' modules are imported only as far as it needs them."""
    importlib.import_module(f".{STAGES[name].module}", __package__).main(run)
