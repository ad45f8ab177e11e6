"""Fakes for runs of streams: an engine that pushes the frames of one utterance."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from ChatTTS.audio.samples import Samples
from ChatTTS.model.generation import Cancellation, Delta, FinishReason, Gain, GenerationRequest
from ChatTTS.pipeline.assembly import WaveformAssembler
from ChatTTS.pipeline.decode.schedules import FixedSize, PlaybackClock
from ChatTTS.pipeline.decode.utterance_decoder import UtteranceDecoder
from ChatTTS.pipeline.decode.worker import DecodeWorker
from ChatTTS.pipeline.routines import Routine, Tell
from ChatTTS.pipeline.stream_generation import GenerationRun
from ChatTTS.pipeline.utterance import Utterance, UtteranceUpdate
from ChatTTS.utils.fair_lock import FairLock

from .decode_fakes import HOP, FakeSynthesizer

UTTERANCE = Utterance(0, 0, "a")
REQUEST: Any = object()


def speak(tell: Tell[UtteranceUpdate]) -> Routine[None]:
    """Speak an utterance of four frames in two steps."""
    requests: Sequence[GenerationRequest] = [REQUEST]
    is_over = False
    while not is_over:
        for delta in (yield requests):
            tell(UtteranceUpdate(UTTERANCE, delta))
            is_over = delta.finish is not None
        requests = ()


def sound_of(frames: int) -> Samples:
    """Return the samples of the utterance's first frames."""
    return np.arange(2 * HOP * frames, dtype=np.float32)[: max(0, 2 * frames - 1) * HOP]


def run_of(
    engine: PushingFake,
    routine: Callable[[Tell[UtteranceUpdate]], Routine[None]] = speak,
    worker: DecodeWorker | None = None,
) -> GenerationRun:
    """Return a run, not begun, of the utterance."""
    synthesizer: Any = FakeSynthesizer(reach=1)

    def decoder(utterance: Utterance, playback: PlaybackClock) -> UtteranceDecoder:
        return UtteranceDecoder(synthesizer, FixedSize(1, 2 * HOP))

    worker = worker or DecodeWorker(FairLock())
    assembler = WaveformAssembler(worker, [UTTERANCE], 1, decoder, waits_for_consumer=True)
    return GenerationRun(routine, engine, assembler, Cancellation())


class PushingFake:
    """An engine that pushes two steps of two frames, from a thread.

    Args:
        pushes_at_once: push them while the requests are begun.
        holds: push nothing by itself.
        refuses: raised where requests are begun.
        breaks: raised in place of the second step.

    Attributes:
        answered: the answers that were asked for.
    """

    def __init__(
        self,
        *,
        pushes_at_once: bool = False,
        holds: bool = False,
        refuses: Exception | None = None,
        breaks: Exception | None = None,
    ) -> None:
        self.pushes_at_once, self.holds = pushes_at_once, holds
        self.refuses, self.breaks = refuses, breaks
        self.answered: list[PushedFake] = []

    def answers(
        self,
        requests: Sequence[GenerationRequest],
        cancelled: Cancellation,
        receive: Callable[[Gain], object],
    ) -> PushedFake:
        answers = PushedFake(self, receive)
        self.answered.append(answers)
        return answers

    def generate(self, *_: object) -> Any:
        raise AssertionError("a run pulls nothing")

    def close(self) -> None:
        """Do nothing."""


class PushedFake:
    """The answers of :class:`PushingFake`."""

    def __init__(self, engine: PushingFake, receive: Callable[[Gain], object]) -> None:
        self._engine, self._receive = engine, receive
        self._steps = [self._step(0), self._step(1)]
        self.is_abandoned = False

    def begin(self) -> None:
        if self._engine.refuses is not None:
            raise self._engine.refuses
        if self._engine.pushes_at_once:
            self.push_all()
        elif not self._engine.holds:
            threading.Thread(target=self.push_all, daemon=True).start()

    def cancelled(self) -> list[Delta]:
        raise AssertionError("nothing is cancelled")

    def abandon(self) -> None:
        self.is_abandoned = True

    def push_all(self, most: int = 2) -> None:
        """Push the next steps, ``most`` of them at most."""
        for _ in range(most):
            if self._steps:
                self._receive(self._steps.pop(0))

    def _step(self, number: int) -> Gain:
        if number == 1 and self._engine.breaks is not None:
            return partial(_throw, self._engine.breaks)
        values = 2 * HOP * torch.arange(2 * number, 2 * number + 2).unsqueeze(1).float()
        finish = FinishReason.STOP if number == 1 else None
        delta = Delta(0, torch.zeros(2, 4, dtype=torch.int64), values, finish)
        return partial(list, [delta])


def _throw(error: Exception) -> list[Delta]:
    raise error
