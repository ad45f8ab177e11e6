"""An engine whose chosen attention heads follow the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ChatTTS.config import AlignmentHeads
from ChatTTS.model.generation import Cancellation, Delta, FinishReason, GenerationRequest

from .chat_tools import Recording


class FollowingHeads(Recording):
    """Speaks three frames for each text id; ``heads`` look at that id, and others anywhere.

    Attributes:
        heads: pairs of a layer and a head.
        finish: how answers end.
        is_empty: whether answers have no frames.
        varies: whether the codes differ from one call to the next.
    """

    heads: AlignmentHeads = ((1, 2), (2, 0))
    finish = FinishReason.STOP
    is_empty = False
    varies = False

    def __enter__(self) -> FollowingHeads:
        super().__enter__()
        return self

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        self.requests.extend(requests)
        for index, request in enumerate(requests):
            if cancelled.is_set():
                reason = FinishReason.ABORT
                yield [self._delta(index, 0, reason, None)]
            elif self.is_empty:
                yield [self._delta(index, 0, self.finish, None)]
            else:
                attention = self.attention(request)
                half = len(attention) // 2
                yield [self._delta(index, half, None, attention[:half])]
                yield [self._delta(index, len(attention) - half, self.finish, attention[half:])]

    def _delta(
        self, index: int, frames: int, finish: FinishReason | None, attention: torch.Tensor | None
    ) -> Delta:
        drawn = len(self.requests) if self.varies else 0
        ids = torch.full((frames, 4), drawn, dtype=torch.int64)
        return Delta(index, ids, torch.zeros(frames, 64), finish, attention=attention)

    def attention(self, request: GenerationRequest) -> torch.Tensor:
        """The attention that an answer comes with, float32 [frames, heads, text ids]."""
        width = len(request.prompt.text)
        place = np.arange(3 * width) // 3
        frames = []
        for layer, head in request.alignment_heads:
            drawn = np.random.default_rng(10 * layer + head)
            weights = drawn.dirichlet(np.full(width, 0.3), size=len(place))
            if (layer, head) in self.heads:
                # Each head sees every second id, so that all of them are needed.
                sees = place % len(self.heads) == self.heads.index((layer, head))
                weights = np.full((len(place), width), 1e-6)
                weights[np.arange(len(place))[sees], place[sees]] = 0.9
            frames.append(weights)
        return torch.from_numpy(np.stack(frames, axis=1).astype(np.float32))
