"""Samples of an utterance that is still being generated.

What has its whole right context is final, and only that is given out: the joined pieces are the
offline samples up to rounding. Each piece is decoded from a window that holds the new frames and
their context on both sides, so the work grows with the length and not with its square.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
        self._pending: list[Tensor] = []
        self._window: Tensor | None = None
        self._window_start = 0  # index of the window's first frame
        self._given = 0  # mel frames whose samples are out; a multiple of two but at the end
        self.frames = 0

    def push(self, delta: Delta) -> NDArray[np.float32]:
        """Take what was generated; returns the samples [n] that became final, often none."""
        synthesizer = self._synthesizer
        if len(delta.ids):
            self._pending.append(synthesizer.frames(delta.ids, delta.hiddens))
            self.frames += len(delta.ids)
        if delta.finish is not None:
            return self._give_until(synthesizer.length(self.frames) // synthesizer.hop)
        final = max(0, 2 * self.frames - synthesizer.reach) // 2 * 2
        if self._batch is None or final - self._given < 2 * self._batch:
            return np.empty(0, dtype=np.float32)
        return self._give_until(final)

    def _give_until(self, mel_frame: int) -> NDArray[np.float32]:
        """Decode and give the samples before ``mel_frame`` that are not out yet."""
        if mel_frame <= self._given:
            return np.empty(0, dtype=np.float32)
        synthesizer = self._synthesizer
        start = max(0, self._given - synthesizer.reach) // 2
        window = [] if self._window is None else [self._window[start - self._window_start :]]
        self._window = torch.cat([*window, *self._pending])
        self._window_start, self._pending = start, []
        samples = synthesizer.samples(self._window).numpy()
        first, last = (m - 2 * start for m in (self._given, mel_frame))
        self._given = mel_frame
        return samples[first * synthesizer.hop : last * synthesizer.hop].copy()
