"""An engine that speaks as long as a test says, by the speed tags of a prompt and its sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch

from ChatTTS.core import Chat
from ChatTTS.model.generation import Cancellation, Delta, FinishReason, GenerationRequest

from .chat_tools import Recording

# Frames of an answer, by the levels of its speed tags and the number of its sample.
Frames = Callable[[tuple[int, ...], int], int]


class PacedEngine(Recording):
    """Its attention goes evenly over the words, and its sound is noise.

    Attributes:
        paces: of the requests so far: the levels of the speed tags, and the sample.
        rounds: the number of calls.
        skips: levels at which the first half of the words is left out.
        ends: how answers end.
    """

    def __init__(self, chat: Chat, frames: Frames) -> None:
        super().__init__(chat)
        self._frames = frames
        self._levels = {chat.tokenizer.id(f"[speed_{level}]"): level for level in range(10)}
        self._hidden = chat.config.gpt.hidden_size
        self.paces: list[tuple[tuple[int, ...], int]] = []
        self.rounds = 0
        self.skips: set[tuple[int, ...]] = set()
        self.ends = FinishReason.STOP

    def __enter__(self) -> PacedEngine:
        super().__enter__()
        return self

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        self.requests.extend(requests)
        self.rounds += 1
        for index, request in enumerate(requests):
            ids = request.prompt.text.tolist()
            levels = tuple(self._levels[token] for token in ids if token in self._levels)
            sample = request.key.sample
            self.paces.append((levels, sample))
            if cancelled.is_set():
                yield [self._delta(index, 0, levels, FinishReason.ABORT, None)]
                continue
            frames = self._frames(levels, sample)
            tags = [place for place, token in enumerate(ids) if token in self._levels]
            attention = None
            if request.alignment_heads:
                attention = self._attention(request, max(tags, default=1) + 1, frames, levels)
            yield [self._delta(index, frames, levels, self.ends, attention)]

    def _attention(
        self, request: GenerationRequest, start: int, frames: int, levels: tuple[int, ...]
    ) -> torch.Tensor:
        """Return attention, float32 [frames, heads, text ids]."""
        width = len(request.prompt.text)
        if levels in self.skips:
            start += (width - start) // 2
        # The last position, behind the words, has some frames as well.
        spoken = max(1, frames - 8)
        places = np.concatenate(
            [start + np.arange(spoken) * (width - 1 - start) // spoken, np.full(8, width - 1)]
        )[:frames]
        weights = np.full((frames, len(request.alignment_heads), width), 1e-6, dtype=np.float32)
        weights[np.arange(frames), :, places] = 0.9
        return torch.from_numpy(weights)

    def _delta(
        self,
        index: int,
        frames: int,
        levels: tuple[int, ...],
        finish: FinishReason,
        attention: torch.Tensor | None,
    ) -> Delta:
        drawn = torch.Generator().manual_seed(sum(levels))
        hiddens = torch.randn(frames, self._hidden, generator=drawn)
        ids = torch.full((frames, 4), 7, dtype=torch.int64)
        return Delta(index, ids, hiddens, finish, attention=attention)
