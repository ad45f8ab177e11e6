"""Trainings that begin with the weights of a checkpoint instead of random ones.

A checkpoint has no optimiser states, and none of the heads that only training uses: their first
steps are slow ones, as at every beginning.
"""

from __future__ import annotations

import logging

from torch import nn

from ChatTTS.model.embed import from_published
from ChatTTS.weights.tensors import load_module, read_tensors

from .language_model import SpeechModel
from .run import Run

logger = logging.getLogger(__name__)

_UNUSED = "embed_tokens.weight"  # of the Llama's file; the model has embeddings of its own


def is_warm(run: Run, stage: str) -> bool:
    """Return whether a stage begins with known weights: it has no state, but a checkpoint."""
    return run.known is not None and not run.state(stage).exists()


def start_language_model(run: Run, model: SpeechModel) -> None:
    """Load the known checkpoint's language model into ``model``, in place.

    The head that only training uses begins with zeros, so that each start gives equal weights.

    Raises:
        AssetError: the checkpoint's language model has other sizes.
    """
    assert run.known is not None
    file = run.known / "gpt" / "model.safetensors"
    load_module(model.llama, read_tensors(file), file=file, unused_ok=(_UNUSED,))
    file = run.known / "Embed.safetensors"
    tensors = from_published(read_tensors(file), model.embed.num_codebooks)
    load_module(model.embed, tensors, file=file)
    for parameter in model.sounds.parameters():
        nn.init.zeros_(parameter)
    logger.info("the language model begins with that of %s", run.known)


def start_module(run: Run, module: nn.Module, name: str) -> None:
    """Load a file of the known checkpoint into ``module``, in place.

    Args:
        run: with a known checkpoint.
        module: of the file's sizes.
        name: of the file, such as ``Decoder.safetensors``.

    Raises:
        AssetError: the file has other sizes.
    """
    assert run.known is not None
    file = run.known / name
    load_module(module, read_tensors(file), file=file)
    logger.info("%s begins with that of %s", file.stem, run.known)
