"""Mel features, computed by the package, and pieces of speech to train on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from ChatTTS.config import MelConfig
from ChatTTS.model.mel import LogMel

from .units import HOP

MEL = MelConfig()


class Sound(Protocol):
    """Anything with samples: float32 [n], mono, 24 kHz, within -1 to 1."""

    @property
    def samples(self) -> NDArray[np.float32]: ...


def log_mel(device: torch.device | str = "cpu") -> LogMel:
    """Return the module that maps samples [B, n] to log-mels [B, n_mels, n // hop + 1]."""
    return LogMel(MEL).to(device)


def samples_of(frames: int) -> int:
    """Return the number of samples with a log-mel of ``2 * frames`` frames (``frames`` codes)."""
    return (2 * frames - 1) * HOP


def fitted(samples: NDArray[np.float32], frames: int) -> Tensor:
    """Cut samples to [(2 * frames - 1) * hop], or fill them with silence at the end."""
    wanted = samples_of(frames)
    cut = torch.from_numpy(np.ascontiguousarray(samples[:wanted]))
    return pad(cut, (0, wanted - len(cut)))


def pieces(utterances: Iterable[Sound], frames: int, generator: torch.Generator) -> Tensor:
    """Return one random piece of each utterance, [B, (2 * frames - 1) * hop].

    The begin of a piece is drawn uniformly, from half a piece before the utterance to half a piece
    after the last possible place. Then it is moved inside. Otherwise beginnings and ends would be
    too rare. Shorter utterances are filled with silence at the end.
    """
    wanted = samples_of(frames)
    chosen = []
    for spoken in utterances:
        room = max(0, len(spoken.samples) - wanted)
        draw = float(torch.rand((), generator=generator))
        begin = min(max(round((room + wanted) * draw - wanted / 2), 0), room)
        chosen.append(fitted(spoken.samples[begin:], frames))
    return torch.stack(chosen)
