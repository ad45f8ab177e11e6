"""The decoding state of one utterance: its frames so far, what to decode next, what goes out.

A sample is final once all frames that it depends on are there. In exact mode only final samples go
out, so the joined pieces equal the samples of offline decoding, later by the synthesizer's reach.
In low-latency mode the first chunks go out before they are final. Nothing in this module computes
samples, and nothing waits.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...audio.samples import Samples
from ...errors import ChatTTSError
from ...model.generation import Delta, FinishReason
from ...model.synthesis.synthesizer import Synthesizer
from ...params import LowLatency
from .schedules import Schedule, WholeUtterance

# An early chunk is computed as if the last frame were repeated this often and the utterance
# ended there. That is closer to the final samples than an end right there, by 4 dB and more.
PADDING_FRAMES = 4


@dataclass(frozen=True)
class DecodeChunk:
    """The part of an utterance that is decoded in one batch.

    Attributes:
        frames: to be decoded, or ``None`` for none.
        last: whether the utterance ends with them.
        early: number of samples, counted from the utterance's beginning, that go out although they
            are not final; ``None`` in exact mode.
    """

    frames: Tensor | None
    last: bool
    early: int | None


class UtteranceDecoder:
    """The decoding state of one utterance whose frames are still coming.

    Args:
        synthesizer: turns frames into samples.
        schedule: decides when to decode.
        low_latency: how the utterance begins, if not exactly.

    Attributes:
        is_whole: whether the utterance is decoded at once, without a state.
        state: the synthesizer's state, from the first input to the last; ``None`` otherwise.
        finish: how the utterance ended; ``None`` while frames are coming.
        is_complete: whether all samples have gone out.
        frames: number of frames that came.
        emitted: number of samples that went out.

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
        self.is_whole = isinstance(schedule, WholeUtterance)
        self.state: Any = None
        if not self.is_whole:
            synthesizer.begin()  # raise now what it cannot do
        self.finish: FinishReason | None = None
        self.is_complete = False
        self.frames = 0
        self.emitted = 0
        self._fresh: deque[Tensor] = deque()
        self._taken = 0
        self._final = 0
        chunks = () if low_latency is None else low_latency.chunks(synthesizer.reach / 2)
        self._early = iter(chunks)
        self._next_early = next(self._early, None)
        # No chunk is shorter than a hop, so a fade ends before the next one begins.
        self._fade_samples = 0 if low_latency is None else min(low_latency.fade, synthesizer.hop)
        self._fade = CrossFade(np.empty(0, dtype=np.float32))

    def is_like(self, other: UtteranceDecoder) -> bool:
        """Return whether both can be decoded in one batch."""
        return self.is_whole == other.is_whole and self.synthesizer is other.synthesizer

    def push(self, delta: Delta) -> None:
        """Take new frames, and the finish reason if there is one.

        Raises:
            ChatTTSError: an earlier delta had a finish reason.
        """
        if self.finish is not None:
            raise ChatTTSError("this utterance has ended: use a new decoder for the next one")
        if len(delta.ids):
            self._fresh.append(self.synthesizer.frames(delta.ids, delta.hiddens))
            self.frames += len(delta.ids)
        self.finish = delta.finish

    @property
    def lead(self) -> float:
        """Seconds of sound that the listener still has to play: the least is the most urgent."""
        return self.schedule.lead

    def wait(self) -> float | None:
        """Return the seconds until there is something to decode, 0 for now.

        ``None`` means that more frames must come first.
        """
        if self.is_complete:
            return None
        if self.finish is not None:
            return 0.0
        if self._next_early is not None:
            return 0.0 if self.frames >= self._next_early[0] else None
        ready = self.synthesizer.final(self.frames) - self.emitted
        return self.schedule.wait(ready, self.frames - self._taken, self.frames)

    def next(self, max_frames: int) -> DecodeChunk:
        """Take what is to be decoded now.

        Args:
            max_frames: frames that it may have, where the utterance is decoded in pieces.
        """
        count = self.frames - self._taken
        if not self.is_whole:
            count = min(count, max_frames)
            if self.state is None:
                self.state = self.synthesizer.begin()
        early = None
        if self._next_early is not None:
            # A chunk sees no frame beyond its lookahead. So its samples do not depend on how many
            # frames happened to be there.
            needed, given = self._next_early
            if self._taken + count >= needed:
                count, early = needed - self._taken, given * self.synthesizer.samples_per_frame
                self._next_early = next(self._early, None)
        frames = self._take(count)
        # An early chunk is never the last input, even where the end is known already.
        last = self.finish is not None and self._taken == self.frames and early is None
        return DecodeChunk(frames, last, early)

    def advance(self, decoded: DecodeChunk, final: Tensor, provisional: Tensor | None) -> Samples:
        """Return the samples that go out after ``decoded`` was computed, float32 [n].

        Args:
            final: the samples that became final with it.
            provisional: for an early chunk, the samples that would follow if the utterance ended
                there.
        """
        samples = final.numpy()
        start = self._final
        self._final += len(samples)
        until = self._final
        if decoded.early is not None:
            assert provisional is not None
            samples, until = np.concatenate([samples, provisional.numpy()]), decoded.early
        out = samples[self.emitted - start : until - start]  # all earlier final samples went out
        if len(out):
            out = self._fade(out)
            self.emitted += len(out)
        if decoded.early is not None:
            self._fade = CrossFade(samples[until - start :][: self._fade_samples])
        if decoded.last:
            self.is_complete, self.state = True, None
        return out

    def _take(self, count: int) -> Tensor | None:
        """Take the next ``count`` frames that are not decoded yet."""
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
    """A fade from the continuation of an early chunk to the samples that follow instead.

    Args:
        old: float32 [n], the continuation; the fade is as long.
    """

    def __init__(self, old: Samples) -> None:
        self._old, self._at = old, 0

    def __call__(self, new: Samples) -> Samples:
        """Return ``new``, mixed with the old continuation while the fade lasts."""
        old = self._old[self._at : self._at + len(new)]
        if not len(old):
            return new
        places = np.arange(self._at, self._at + len(old), dtype=np.float32)
        weights = (places + 0.5) / len(self._old)
        self._at += len(old)
        faded: Samples = new.copy()
        faded[: len(old)] = old + weights * (faded[: len(old)] - old)
        return faded
