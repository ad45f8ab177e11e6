"""The likelihood of recordings to a model, with one speaker or with many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .language_model import LanguageModel
from .sequences import CodeSequence, code_batch, groups_of_similar_length

SpeakerVector = Tensor | NDArray[np.float32]
"""A normalised vector [hidden]."""

_POSITIONS = 4096  # of a pass, padding included


@torch.no_grad()
def unlikelihoods(
    model: LanguageModel, sequences: Sequence[CodeSequence], speakers: Sequence[SpeakerVector]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return minus the log likelihood of each sequence's codes, and its number of frames.

    Args:
        model: on any device.
        sequences: one or more.
        speakers: of each sequence.

    Returns:
        float64 [n], nats a code, the mean over frames and codebooks; and int64 [n].
    """
    found, frames = np.zeros(len(sequences)), np.zeros(len(sequences), np.int64)
    for part in groups_of_similar_length([len(s) for s in sequences], _POSITIONS):
        batch = code_batch([sequences[i] for i in part], model.end).to(model.device)
        vectors = torch.stack([torch.as_tensor(speakers[i]) for i in part]).to(model.device)
        losses, wanted = model.losses(batch, vectors)
        counts = wanted.sum(dim=1)
        found[part] = (losses.double().sum(dim=1) / counts.clamp_min(1)).cpu().numpy()
        frames[part] = counts.cpu().numpy()
    return found, frames


def unlikelihood(
    model: LanguageModel, sequences: Sequence[CodeSequence], speakers: Sequence[SpeakerVector]
) -> float:
    """Return minus the log likelihood of a code, the mean over all frames, in nats."""
    found, frames = unlikelihoods(model, sequences, speakers)
    return float((found * frames).sum() / max(1, frames.sum()))
