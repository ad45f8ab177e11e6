"""Replicas in this process whose sound is a plain function of the job, and which die on demand."""

from __future__ import annotations

import asyncio
import threading
import zlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ChatTTS.audio.samples import Samples
from ChatTTS.errors import ChatTTSError
from ChatTTS.model.velocity.metrics import Metrics
from ChatTTS.pipeline.results import Fault, Piece, Word
from ChatTTS.serving.replicas.messages import (
    Ended,
    Failed,
    Fingerprint,
    Message,
    Opened,
    ReplicaState,
)
from ChatTTS.serving.replicas.pool import Facts, ReplicaLostError
from ChatTTS.serving.requests.jobs import RefineJob, SpeechJob

PRINT = Fingerprint("0.1.0", "abc", "float32", "avx512", "AVX512", "2.13.0")
UTTERANCES = ("one two", "three")
LENGTHS = (17, 9)  # samples of each


def sound(job: SpeechJob) -> Samples:
    """Return the samples, float32 (n,), that every replica computes for a job."""
    voice = "".join(f"{name}={value};" for name, value in sorted(job.voice.items()))
    seed = zlib.crc32(f"{job.text}|{voice}|{job.seed}".encode())
    return np.random.default_rng(seed).standard_normal(sum(LENGTHS)).astype(np.float32)


def words(length: int, lag: int = 0) -> tuple[Word, ...]:
    """Return the words that are final once so many samples are given, ``lag`` after their ends."""
    starts = range(0, sum(LENGTHS), 4)
    return tuple(
        Word(f"w{start}", 0.0, 0.0, start, start + 4, start, start + 2, 1.0)
        for start in starts
        if start + 4 + lag <= length or length == sum(LENGTHS)
    )


def faults(length: int, lag: int = 0) -> tuple[Fault, ...]:
    """Return the faults that are known once so many samples are given."""
    return tuple(
        Fault("", 0.0, 0.0, place, place, 0, 0, "skipped", 1)
        for place in (3, 9, 20)
        if place + lag <= length or length == sum(LENGTHS)
    )


def pieces(job: SpeechJob, size: int, lag: int = 0) -> list[Piece]:
    """Return the pieces of a job, of at most ``size`` samples, with words that come so late."""
    samples, found, start, given, told = sound(job), [], 0, 0, 0
    for index, (text, length) in enumerate(zip(UTTERANCES, LENGTHS, strict=True)):
        end = start + length
        for position in range(start, end, size):
            last = min(position + size, end)
            final = words(last, lag) if job.word_times else ()
            known = faults(last, lag) if job.guard else ()
            found.append(
                Piece(
                    samples[position:last],
                    position,
                    index,
                    text,
                    "stop" if last == end else None,
                    final[given:],
                    known[told:],
                )
            )
            given, told = len(final), len(known)
        start = end
    return found


@dataclass(frozen=True)
class Life:
    """How one replica behaves with one job.

    Attributes:
        size: samples of its pieces.
        lag: samples between the end of a word and the piece that has it.
        dies_after: messages that it gives before it is lost; ``None`` for all of them.
        fails: an error in place of the message after these.
        fingerprint: of the replica.
        shift: is added to its samples.
        hangs: whether it says nothing more in place of being lost.
        ends_early: whether it ends after its first piece, as if that were all.
    """

    size: int = 4
    lag: int = 1
    dies_after: int | None = None
    fails: ChatTTSError | None = None
    fingerprint: Fingerprint = PRINT
    shift: float = 0.0
    hangs: bool = False
    ends_early: bool = False


@dataclass
class FakePool:
    """A pool whose calls reach one life after another; the last one serves all further calls.

    Attributes:
        lives: of the replicas, in the order of the calls.
        jobs: that were received.
        closed: how many streams were closed by their consumer or ended.
        avoided: names of replicas that did not answer, or whose engines stopped.
    """

    lives: Sequence[Life]
    jobs: list[SpeechJob] = field(default_factory=list)
    closed: int = 0
    avoided: list[str] = field(default_factory=list)

    def facts(self) -> Facts:
        """Return the facts of the first replica."""
        return Facts(self.lives[0].fingerprint, True, True, None)

    async def speak(self, job: SpeechJob) -> AsyncGenerator[Message, None]:
        """Yield the messages of one life."""
        number = len(self.jobs)
        life = self.lives[min(number, len(self.lives) - 1)]
        self.jobs.append(job)
        state = ReplicaState(f"replica-{number}", Metrics(generated_tokens=10, blocks=3))
        messages: list[Message] = [Opened(life.fingerprint, UTTERANCES, state)]
        messages += [
            replace(piece, samples=piece.samples + np.float32(life.shift))
            for piece in pieces(job, life.size, life.lag)
        ]
        if life.ends_early:
            messages = messages[:2]
        messages.append(Ended("stop", state))
        try:
            for count, message in enumerate(messages):
                if count == life.dies_after:
                    break
                yield message
            else:
                return
            if life.hangs:
                await asyncio.sleep(3600)
            if life.fails is None:
                raise ReplicaLostError("the process is gone")
            yield Failed.of(life.fails, state.replica)
        finally:
            self.closed += 1

    def avoid(self, replica: str) -> None:
        """Note the name."""
        self.avoided.append(replica)

    @property
    def unrecorded(self) -> int:
        """Return what none of the lives has left."""
        return 0

    def living(self) -> None:
        """Say that it is not known which lives have ended."""

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str | Failed:
        """Return the text in capitals, or what this life does instead."""
        return self._answer(job.text.upper())

    def encode_sample(self, samples: Samples, sample_rate: int) -> str | Failed:
        """Return a name of the recording, or what this life does instead."""
        return self._answer(f"{len(samples)} at {sample_rate}")

    def _answer(self, text: str) -> str | Failed:
        life = self.lives[min(len(self.jobs), len(self.lives) - 1)]
        self.jobs.append(SpeechJob(text, {}, {}, 0))
        if life.fails is not None:
            return Failed.of(life.fails)
        if life.dies_after is not None:
            raise ReplicaLostError("the process is gone")
        return text
