"""From generated frames to rows of samples: each utterance decoded, each row in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .model.streaming import UtteranceDecoder
from .model.synthesis import Synthesizer
from .results import Row, Spoken
from .speech import Gain, Utterance

Samples = NDArray[np.float32]


class RowMixer:
    """Decodes the utterances of all rows and puts their samples in order.

    Utterances of a row may be generated side by side; the samples of a later one wait until the
    earlier ones are complete. Nothing is lost and nothing is given twice.

    Args:
        synthesizer: frames to samples.
        utterances: of all the rows.
        batch: frames between two decodes of an utterance; ``None`` decodes it at its end.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        utterances: Sequence[Utterance],
        batch: int | None = None,
    ) -> None:
        count = 1 + max((u.row for u in utterances), default=-1)
        self.samples_per_frame = 2 * synthesizer.hop
        self.rows = [Row() for _ in range(count)]
        self._decoders: dict[Utterance, UtteranceDecoder] = {}
        self._ready: dict[Utterance, deque[Samples]] = {}
        self._order: list[deque[Utterance]] = [deque() for _ in range(count)]
        self._spoken: dict[Utterance, Spoken] = {}
        for u in sorted(utterances, key=lambda u: u.index):
            self._decoders[u] = UtteranceDecoder(synthesizer, batch)
            self._ready[u] = deque()
            self._order[u.row].append(u)
            self._spoken[u] = Spoken(u.text)
            self.rows[u.row].utterances.append(self._spoken[u])

    def push(self, gain: Gain) -> None:
        """Take what an utterance gained."""
        u, spoken = gain.utterance, self._spoken[gain.utterance]
        samples = self._decoders[u].push(gain.delta)
        if len(samples):
            self._ready[u].append(samples)
            spoken.samples += len(samples)
        if gain.delta.finish is not None:
            spoken.finish = gain.delta.finish
            del self._decoders[u]

    @property
    def empty_texts(self) -> list[str]:
        """Texts of the utterances that the model ended at once."""
        return [
            spoken.text
            for spoken in self._spoken.values()
            if spoken.finish is not None and spoken.finish.value == "stop" and not spoken.samples
        ]

    def take(self, least: int = 1, most: int | None = None) -> Samples | None:
        """A chunk (rows, n) of what every unfinished row can give; ``None`` if that is too short.

        Rows that are finished are padded with silence.

        Args:
            least: samples that a chunk must have, unless all rows are finished.
            most: samples that a chunk may have.
        """
        ready = [self._available(row) for row in range(len(self.rows))]
        waiting = [n for n, row in zip(ready, self.rows, strict=True) if row.finish_reason is None]
        length = min(waiting) if waiting else max(ready, default=0)
        if length == 0 or (waiting and length < least):
            return None
        chunk = np.zeros((len(self.rows), min(length, most or length)), dtype=np.float32)
        for row in range(len(self.rows)):
            self._move(row, chunk[row])
        return chunk

    def whole(self) -> Iterator[Samples]:
        """All that is ready of each row."""
        for row in range(len(self.rows)):
            samples = np.zeros(self._available(row), dtype=np.float32)
            self._move(row, samples)
            yield samples

    def _available(self, row: int) -> int:
        """Samples of a row that can be given: up to the first unfinished utterance's last."""
        total = 0
        for u in self._order[row]:
            total += sum(len(samples) for samples in self._ready[u])
            if u in self._decoders:
                break
        return total

    def _move(self, row: int, target: Samples) -> None:
        """Move samples of a row into ``target``, as far as there are any."""
        filled = 0
        while filled < len(target) and self._order[row]:
            u = self._order[row][0]
            while self._ready[u] and filled < len(target):
                piece = self._ready[u].popleft()
                part = piece[: len(target) - filled]
                target[filled : filled + len(part)] = part
                filled += len(part)
                if len(part) < len(piece):
                    self._ready[u].appendleft(piece[len(part) :])
            if self._ready[u] or u in self._decoders:
                break
            self._order[row].popleft()
