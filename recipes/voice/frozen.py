"""The frozen codec: the one that codes are made with and that the checkpoint holds."""

from __future__ import annotations

import torch

from ChatTTS.model.dvae import DVAE
from ChatTTS.weights.tensors import load_module, read_tensors

from .checkpoints import load_average
from .codec import CODEC, NAME
from .features import MEL
from .run import Run


def frozen_codec(run: Run) -> DVAE:
    """Return the codec of a run, rounded to float16 as the checkpoint holds it.

    It is the trained one, or that of the known checkpoint where none was trained. Both ways it
    gives the same codes, so codes stay good when a later run begins with the checkpoint.

    Raises:
        AssetError: there is neither.
    """
    codec = DVAE(CODEC, MEL)
    state = run.state(NAME)
    if not state.exists() and run.known is not None:
        file = run.known / "DVAE.safetensors"
        load_module(codec, read_tensors(file), file=file)
    else:
        load_average(state, NAME, codec)
    round_to_half(codec)
    return codec.to(run.device).eval().requires_grad_(False)


@torch.no_grad()
def round_to_half(module: torch.nn.Module) -> None:
    """Round the weights that a checkpoint stores in float16, in place."""
    for name, value in module.state_dict().items():
        if is_stored_in_half(name, value):
            value.copy_(value.half())


def is_stored_in_half(name: str, value: torch.Tensor) -> bool:
    """Return whether a checkpoint stores a tensor in float16."""
    # Windows and filters are computed, not learned; half precision would only add noise.
    return value.is_floating_point() and not name.endswith((".window", ".fb"))
