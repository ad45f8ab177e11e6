"""The frames of a batch: the states that predict them, and other frames in their place."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ChatTTS.model.embed import Embed
from ChatTTS.voice_learning.sequences import IGNORED, CodeBatch

from .training import autocast

B = TypeVar("B", bound=CodeBatch)
Read = TypeVar("Read", bound=CodeBatch, contravariant=True)


def frame_states(hidden: Tensor, batch: CodeBatch) -> list[Tensor]:
    """Return the states from which each sequence's own frames are drawn, float32 [frames, hidden].

    Args:
        hidden: of all positions of the batch, [B, L, hidden].
    """
    is_predicting = batch.targets[..., 0] != IGNORED
    # The last state predicts the end, and gives no sound.
    return [h[p][:-1].float() for h, p in zip(hidden, is_predicting, strict=True)]


def corrupted(
    codes: NDArray[np.int64],
    others: NDArray[np.int64],
    end: int,
    most: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Replace some frames by frames of the batch, or by random codes in some codebooks."""
    count, num_codebooks = codes.shape
    hit = rng.random((count, 1)) < rng.uniform(0, most)
    foreign = others[rng.integers(len(others), size=count)]
    noise = np.where(
        rng.random((count, num_codebooks)) < 0.5,
        rng.integers(end, size=(count, num_codebooks)),
        codes,
    )
    changed = np.where(rng.random((count, 1)) < 0.5, foreign, noise)
    return np.where(hit, changed, codes)


class Predicts(Protocol[Read]):
    """A model of speech whose hidden states predict frames.

    Attributes:
        embed: embeddings and heads.
    """

    embed: Embed

    def speech(self, batch: Read, /) -> tuple[Tensor, ...]:
        """Return the hidden states [B, L, hidden], and more."""


@torch.no_grad()
def with_own_frames(
    model: Predicts[B],
    batch: B,
    most: float,
    temperature: float,
    generator: torch.Generator,
) -> B:
    """Replace some frames that the model reads by frames that it draws itself.

    All of them are drawn at once from the model's predictions (scheduled sampling in parallel,
    Mihaylova and Martins, 2019). The frames to predict stay the teacher's, so the model learns to
    recover after its own frames.

    Args:
        most: in each sequence, a share drawn from 0 to this is replaced.
        generator: generator of the draws, on the batch's device.
    """
    rows, places = batch.ids.shape
    device = batch.ids.device
    share = most * torch.rand((rows, 1), generator=generator, device=device)
    # A frame is read one position after the position that predicts it; the end is never read.
    is_read = (batch.targets[:, :-1, 0] != IGNORED) & batch.is_code[:, 1:]
    chosen = is_read & (torch.rand((rows, places - 1), generator=generator, device=device) < share)
    with autocast(device):
        hidden = model.speech(batch)[0][:, :-1][chosen]
        logits = model.embed.code_logits(hidden)[..., :-1]  # without the end
    # This takes one random number per draw. torch.multinomial takes one per code, which is slow.
    cumulated = (logits.float() / temperature).softmax(-1).cumsum(-1)
    heights = torch.rand(cumulated.shape[:2], generator=generator, device=device)[..., None]
    drawn = torch.searchsorted(cumulated, heights).clamp_max(logits.shape[-1] - 1)[..., 0]
    codes = batch.codes.clone()
    codes[:, 1:][chosen] = drawn
    return replace(batch, codes=codes)
