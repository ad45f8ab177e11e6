"""Pieces of speech to train codec and vocoder on, and the part of a log-mel that can be heard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .features import log_mel, pieces
from .takes import TEACHER_FRAME, Take
from .training import generator_for

# Log-mel below this cannot be heard: speech lies at 0 to 4, so it is 70 dB louder. The teacher's
# pauses are digital silence, at -11.5, and the least shift of their borders would be the largest
# error of all.
FLOOR = -6.0
_MARGIN = 4  # frames of the teacher, 0.1 s, that are kept of the silence at both ends


def audible(mel: Tensor) -> Tensor:
    """Return a log-mel with all that cannot be heard at one level."""
    return mel.clamp_min(FLOOR)


@dataclass(frozen=True, eq=False)
class Trimmed:
    """A take's samples without most of the silence before and after."""

    samples: NDArray[np.float32]

    @classmethod
    def of(cls, take: Take) -> Trimmed:
        """Return the trimmed sound of a take."""
        before, after = (max(0, int(take.frames[end]) - _MARGIN) for end in (0, -1))
        last = len(take.samples) - after * TEACHER_FRAME
        return cls(take.samples[before * TEACHER_FRAME : last])


def spread(takes: Iterable[Take]) -> Tensor:
    """Return the standard deviation of each bin of the audible log-mel over takes, [n_mels, 1].

    It becomes ``coef``, which multiplies the outputs of networks and divides their inputs.
    """
    mel = log_mel()
    frames = [audible(mel(torch.from_numpy(Trimmed.of(take).samples)[None])[0]) for take in takes]
    return torch.cat(frames, dim=1).std(dim=1, keepdim=True)


def drawn_pieces(
    takes: Sequence[Take], count: int, frames: int, generator: torch.Generator
) -> Tensor:
    """Return random pieces of random takes, [count, (2 * frames - 1) * hop].

    Args:
        takes: the speech. Training may go on with more of it.
        count: number of pieces.
        frames: code frames of a piece.
        generator: of the draws.
    """
    places = torch.rand(count, generator=generator, dtype=torch.float64)
    chosen = [Trimmed.of(takes[int(place * len(takes))]) for place in places]
    return pieces(chosen, frames, generator)


def step_pieces(takes: Sequence[Take], count: int, frames: int, seed: int, step: int) -> Tensor:
    """Return the pieces of a step, a function of the seed and its number: [count, n] samples."""
    generator = generator_for(torch.device("cpu"), seed, step)
    return drawn_pieces(takes, count, frames, generator)
