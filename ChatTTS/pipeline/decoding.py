"""One utterance on its way to samples: what came, what is to be decoded next, what goes out.

What has its whole right context is final, and in exact mode only that goes out: the joined pieces
are the offline samples, later by the reach. In low-latency mode the first chunks go out before.
Nothing here computes, and nothing waits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import ChatTTSError
from ..model.generation import Delta, FinishReason
from ..model.synthesis import Synthesizer
from ..params import LowLatency
from .schedules import AtTheEnd, Schedule

Samples = NDArray[np.float32]


# An early chunk is computed as if the last frame went on for so many frames and the utterance ended
# there. That is nearer to what really comes than an end at once, by 4 dB and more.
STAND_INS = 4


@dataclass(frozen=True)
class Work:
    """What is to be decoded of an utterance in one turn.

    Attributes:
        frames: to be decoded, or ``None`` for none.
        last: whether the utterance ends with them.
        early: samples, from the beginning, that go out although they are not final; ``None`` in
            exact mode.
    """

    frames: Tensor | None
    last: bool
    early: int | None


class UtteranceDecoder:
    """The state of one utterance, of which frames are still coming.

    Args:
        synthesizer: who decodes.
        schedule: when to decode.
        low_latency: how the utterance begins, if not exactly.

    Attributes:
        is_whole: whether the utterance is decoded in one go, without a state.
        state: what the chain remembers, from the first work to the last; ``None`` otherwise.
        finish: how the utterance ended, ``None`` while frames are coming.
        is_complete: whether all samples are out.

    Raises:
        ConfigError: the vocoder cannot compute in pieces.
    """

    def __init__(
        self,
        synthesizer: Synthesizer,
        schedule: Schedule,
        low_latency: LowLatency | None = None,
    ) -> None:
        self.synthesizer = synthesizer
        self.schedule = schedule
        self.is_whole = isinstance(schedule, AtTheEnd)
        self.state: Any = None
        if not self.is_whole:
            synthesizer.begin()  # what cannot be done is said now
        self.finish: FinishReason | None = None
        self.is_complete = False
        self.frames = 0
        self.given = 0
        self._fresh: deque[Tensor] = deque()
        self._taken = 0
        self._final = 0
        chunks = () if low_latency is None else low_latency.chunks(synthesizer.reach / 2)
        self._early = iter(chunks)
        self._next_early = next(self._early, None)
        # No chunk is shorter than a hop, so a fade is over before the next one begins.
        self._fade_samples = 0 if low_latency is None else min(low_latency.fade, synthesizer.hop)
        self._fade = CrossFade(np.empty(0, dtype=np.float32))

    def is_like(self, other: UtteranceDecoder) -> bool:
        """Whether both can be decoded in one batch."""
        return self.is_whole == other.is_whole and self.synthesizer is other.synthesizer

    def push(self, delta: Delta) -> None:
        """Take what was generated.

        Raises:
            ChatTTSError: an earlier delta had a finish reason.
        """
        if self.finish is not None:
            raise ChatTTSError("this utterance has ended: use a new decoder for the next one")
        if len(delta.ids):
            self._fresh.append(self.synthesizer.frames(delta.ids, delta.hiddens))
            self.frames += len(delta.ids)
        self.finish = delta.finish

    def wait(self) -> float | None:
        """Seconds until there is something to decode, 0 for now; ``None``: more must come."""
        if self.is_complete:
            return None
        if self.finish is not None:
            return 0.0
        if self._next_early is not None:
            return 0.0 if self.frames >= self._next_early[0] else None
        ready = self.synthesizer.final(self.frames) - self.given
        return self.schedule.wait(ready, self.frames - self._taken, self.frames)

    def next(self, most: int) -> Work:
        """What is to be decoded now.

        Args:
            most: frames that it may have, where the utterance is decoded in pieces.
        """
        count = self.frames - self._taken
        if not self.is_whole:
            count = min(count, most)
            if self.state is None:
                self.state = self.synthesizer.begin()
        early = None
        if self._next_early is not None:
            # Never beyond a chunk's lookahead: then the samples depend on nothing but the frames.
            needed, given = self._next_early
            if self._taken + count >= needed:
                count, early = needed - self._taken, given * self.synthesizer.samples_per_frame
                self._next_early = next(self._early, None)
        frames = self._take(count)
        # An early chunk does not know of the end, whenever the end became known.
        last = self.finish is not None and self._taken == self.frames and early is None
        return Work(frames, last, early)

    def advance(self, work: Work, final: Tensor, flushed: Tensor | None) -> Samples:
        """What goes out of the samples that a turn gave.

        Args:
            final: that became final with it.
            flushed: of an early work, what would come if the utterance ended there.
        """
        decoded = final.numpy()
        start = self._final
        self._final += len(decoded)
        until = self._final
        if work.early is not None:
            assert flushed is not None
            decoded, until = np.concatenate([decoded, flushed.numpy()]), work.early
        samples = decoded[self.given - start : until - start]  # all that was final was given
        if len(samples):
            samples = self._fade(samples)
            self.given += len(samples)
        if work.early is not None:
            self._fade = CrossFade(decoded[until - start :][: self._fade_samples])
        if work.last:
            self.is_complete, self.state = True, None
        return samples

    def _take(self, count: int) -> Tensor | None:
        """The next so many fresh frames."""
        parts = []
        while count:
            part = self._fresh.popleft()
            if len(part) > count:
                self._fresh.appendleft(part[count:])
                part = part[:count]
            parts.append(part)
            count -= len(part)
            self._taken += len(part)
        return torch.cat(parts) if parts else None


class CrossFade:
    """What went out would have gone on in one way; it goes on in another, and nobody hears where.

    Args:
        old: [n], how it would have gone on; the fade is as long.
    """

    def __init__(self, old: Samples) -> None:
        self._old, self._at = old, 0

    def __call__(self, new: Samples) -> Samples:
        """The next samples of the new way, with the old one in them while the fade lasts."""
        old = self._old[self._at : self._at + len(new)]
        if not len(old):
            return new
        places = np.arange(self._at, self._at + len(old), dtype=np.float32)
        weights = (places + 0.5) / len(self._old)
        self._at += len(old)
        faded = new.copy()
        faded[: len(old)] = old + weights * (faded[: len(old)] - old)
        return faded
