"""Fakes for the tests of the decode worker: gates, and synthesizers and jobs that can wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from ChatTTS.audio.samples import Samples
from ChatTTS.model.generation import Delta, FinishReason
from ChatTTS.model.synthesis.streaming_decoder import DecoderInput
from ChatTTS.pipeline.decode.schedules import FixedSize, Schedule
from ChatTTS.pipeline.decode.utterance_decoder import UtteranceDecoder
from ChatTTS.pipeline.decode.worker import DecodeClient, DecodeJob, DecodeWorker
from ChatTTS.utils.fair_lock import ComputeLock

from .waiting import SECONDS, Gate

T = TypeVar("T")

HOP = 4
STOP = FinishReason.STOP


class HeldLock(ComputeLock):
    """A lock that tells whether it is held."""

    is_held = False

    def run(self, work: Callable[[], T]) -> T:
        assert not self.is_held
        self.is_held = True
        try:
            return work()
        finally:
            self.is_held = False


class Counter:
    """A fake of the decoder's state: the frames of an utterance so far."""

    ended = False

    def __init__(self, frames: Sequence[float] = ()) -> None:
        self.frames = list(frames)

    def copy(self) -> Counter:
        return Counter(self.frames)


class FakeSynthesizer:
    """A synthesizer that makes the samples v, v + 1, ... v + 2 HOP - 1 from a frame of value v.

    Args:
        compute_lock: must be held while it computes.
        reach: samples are final ``reach`` times HOP samples later; with 1, all but the last HOP.

    Attributes:
        advances: for each batch, how many frames each of its utterances had.
        broken: raised by the next batch.
        order: the synthesizers of all batches, where several share the list.
    """

    hop, samples_per_frame, is_exact, by_launches = HOP, 2 * HOP, True, False

    def __init__(self, compute_lock: HeldLock | None = None, reach: int = 1) -> None:
        self.reach = reach
        self.gate = Gate()
        self.advances: list[list[int]] = []
        self.broken: BaseException | None = None
        self.order: list[FakeSynthesizer] = []
        self._compute_lock = compute_lock

    def frames(self, ids: Tensor, hiddens: Tensor) -> Tensor:
        return hiddens

    def length(self, frames: int) -> int:
        return max(0, 2 * frames - 1) * HOP

    def final(self, frames: int) -> int:
        return max(0, 2 * frames - self.reach) * HOP

    def launch_samples(self, frames: Tensor) -> Callable[[], Tensor]:
        self._compute([len(frames)])
        return lambda: self._sound(frames)[: self.length(len(frames))]

    def begin(self) -> Counter:
        return Counter()

    def launch(self, pushes: Sequence[DecoderInput]) -> Callable[[], list[Tensor]]:
        self._compute([0 if p.frames is None else len(p.frames) for p in pushes])
        sound = [self._advance(cast(Any, push.state), push.frames, push.last) for push in pushes]
        return lambda: sound

    def _compute(self, counts: list[int]) -> None:
        self.advances.append(counts)
        self.order.append(self)
        assert self._compute_lock is None or self._compute_lock.is_held
        self.gate.pass_by()
        error, self.broken = self.broken, None
        if error is not None:
            raise error

    def _advance(self, state: Counter, frames: Tensor | None, last: bool) -> Tensor:
        assert not state.ended
        state.ended = last
        given = self.final(len(state.frames))
        state.frames += [] if frames is None else frames.flatten().tolist()
        count = len(state.frames)
        sound = self._sound(torch.tensor(state.frames))
        return sound[given : self.length(count) if last else self.final(count)]

    def _sound(self, frames: Tensor) -> Tensor:
        return (frames.view(-1, 1).float() + torch.arange(2 * HOP)).flatten()


class FakeJob(DecodeJob):
    """A job that keeps the samples that it gets.

    Attributes:
        delays: seconds that each piece was late.
        done: set when no more samples come.
    """

    def __init__(self, synthesizer: FakeSynthesizer, schedule: Schedule | None = None) -> None:
        self.decoder = UtteranceDecoder(cast(Any, synthesizer), schedule or FixedSize(1, 2 * HOP))
        self.pieces: list[Samples] = []
        self.delays: list[float] = []
        self.error: BaseException | None = None
        self.done = threading.Event()
        self.wanted = self.room = True

    @property
    def is_wanted(self) -> bool:
        return self.wanted

    @property
    def has_room(self) -> bool:
        return self.room

    def deliver(self, samples: Samples, delay: float) -> None:
        self.pieces.append(samples)
        self.delays.append(delay)
        if self.decoder.is_complete:
            self.done.set()

    def fail(self, error: BaseException) -> None:
        self.error = error
        self.done.set()

    @property
    def joined(self) -> list[float]:
        samples: list[float] = np.concatenate([np.empty(0), *self.pieces]).tolist()
        return samples

    def push(self, count: int, finish: FinishReason | None = STOP, first: float = 0) -> FakeJob:
        """Push ``count`` frames of the values first, first + 1, ..."""
        hiddens = (first + torch.arange(count)).unsqueeze(1).float()
        self.decoder.push(Delta(0, torch.zeros(count, 4, dtype=torch.int64), hiddens, finish))
        return self

    def expected(self) -> list[float]:
        """Return all samples of the frames 0, 1, ..."""
        count = self.decoder.frames
        kept = max(0, 2 * count - 1) * HOP
        sound = np.arange(count)[:, None] + np.arange(2 * HOP)
        samples: list[float] = sound.flatten()[:kept].tolist()
        return samples

    def check(self) -> None:
        """Wait for all samples, and raise unless they are right."""
        assert self.done.wait(SECONDS), "a job was forgotten"
        assert self.error is None
        assert self.joined == self.expected()


def add(worker: DecodeWorker, *jobs: FakeJob) -> None:
    """Give a worker jobs before it begins with the first one."""
    with worker.lock:
        for job in jobs:
            worker.add(job)


def check(*jobs: FakeJob) -> None:
    """Wait for all samples of the jobs, and raise unless they are right."""
    for job in jobs:
        job.check()


# Decoding threads that other tests of this process have left with unfinished streams.
OTHERS: set[threading.Thread] = set()


def threads() -> list[threading.Thread]:
    alive = [thread for thread in threading.enumerate() if thread.name == "decoding"]
    return [thread for thread in alive if thread not in OTHERS]


class FakeClient(DecodeClient):
    """A client that counts the forks."""

    forks = 0

    def after_fork(self) -> None:
        self.forks += 1
