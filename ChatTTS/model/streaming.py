"""Samples of an utterance that is still being generated.

What has its whole right context is final, and only that is given out: the joined pieces are the
offline samples up to rounding, later by the reach. Nothing is computed twice.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import ChatTTSError
from .generation import Delta
from .synthesis import Synthesizer


class UtteranceDecoder:
    """The state of one utterance.

    Args:
        synthesizer: the loaded modules.
        batch: decode whenever this many new frames can be given out; ``None`` waits for the end.
    """

    def __init__(self, synthesizer: Synthesizer, batch: int | None = None) -> None:
        self._synthesizer = synthesizer
        self._batch = batch
        self._state = None if batch is None else synthesizer.begin()
        self._pending: list[Tensor] = []
        self._taken = 0  # frames that the state has seen
        self._given = 0  # samples that are out
        self._ended = False
        self.frames = 0

    def push(self, delta: Delta) -> NDArray[np.float32]:
        """Take what was generated; returns the samples [n] that became final, often none.

        Raises:
            ChatTTSError: an earlier delta had a finish reason.
        """
        if self._ended:
            raise ChatTTSError("this utterance has ended: use a new decoder for the next one")
        if len(delta.ids):
            self._pending.append(self._synthesizer.frames(delta.ids, delta.hiddens))
            self.frames += len(delta.ids)
        self._ended = delta.finish is not None
        return self._decode() if self._ended or self._is_due() else _nothing()

    def _is_due(self) -> bool:
        """Whether to decode now, while more is to come."""
        if self._batch is None:
            return False
        hop, reach = self._synthesizer.hop, self._synthesizer.reach
        ready = 2 * self.frames - reach - self._given // hop
        # Before the first sound the state is fed as well, so that the first piece is quick.
        feeds = ready <= 0 and self.frames - self._taken >= self._batch
        return feeds or ready >= 2 * self._batch

    def _decode(self) -> NDArray[np.float32]:
        frames = torch.cat(self._pending) if self._pending else None
        self._pending, self._taken = [], self.frames
        if self._state is not None:
            samples = self._synthesizer.advance(self._state, frames, last=self._ended)
        elif frames is not None:
            samples = self._synthesizer.samples(frames)
        else:
            return _nothing()
        if self._ended:
            self._state = None
        self._given += len(samples)
        return samples.numpy()


def _nothing() -> NDArray[np.float32]:
    return np.empty(0, dtype=np.float32)
