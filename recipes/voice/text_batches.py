"""Refine pairs, and their layout in tensors."""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ChatTTS.voice_learning.sequences import IGNORED, CodeSequence

from .refining import RefinePair


class Pairs(Protocol):
    """Refine pairs by index; an index always gives an equal pair."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> RefinePair: ...


@dataclass(frozen=True, eq=False)
class TextBatch:
    """Sequences of the refine pass: ``ids`` and ``targets``, int64 [B, L]."""

    ids: Tensor
    targets: Tensor

    def to(self, device: torch.device | str) -> TextBatch:
        """Return a copy on ``device``."""
        return TextBatch(self.ids.to(device), self.targets.to(device))


def text_batch(sequences: Items[CodeSequence]) -> TextBatch:
    """Lay out sequences of the refine pass."""
    shape = len(sequences), max(map(len, sequences))
    ids, targets = np.zeros(shape, np.int64), np.full(shape, IGNORED, np.int64)
    for row, s in enumerate(sequences):
        ids[row, : len(s)] = s.ids
        targets[row, s.prompt_length - 1 : len(s) - 1] = s.ids[s.prompt_length :]
    return TextBatch(torch.from_numpy(ids), torch.from_numpy(targets))
