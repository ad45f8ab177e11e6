"""Helpers for the tests of ``Chat``: quick settings, and engines that record or fail."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from ChatTTS.core import Chat
from ChatTTS.model.generation import (
    Cancellation,
    Delta,
    FinishReason,
    Gain,
    GenerationRequest,
    Generator,
)
from ChatTTS.pipeline.model import Model
from ChatTTS.pipeline.results import Waveforms

TEXT = "hello the world, this is one good day."
LIVELY: dict[str, Any] = {
    "temperature": 1.0,
    "min_new_token": 40,
    "max_new_token": 40,
    "manual_seed": 3,
    "ensure_non_empty": False,
}


def quick(**changes: Any) -> dict[str, Any]:
    """Return the settings of a call that is not refined, with quick parameters but for changes."""
    return {"skip_refine_text": True, "params_infer_code": {**LIVELY, **changes}}


def speak(chat: Chat, text: str | list[str], **changes: Any) -> Waveforms:
    spoken: Waveforms = chat.infer(text, **quick(**changes))
    return spoken


def equal(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(a, b) for a, b in zip(first, second, strict=True)
    )


class ThreadedAnswers:
    """The answers of a generator, which a thread takes and pushes."""

    def __init__(
        self,
        engine: Generator,
        requests: Sequence[GenerationRequest],
        cancelled: Cancellation,
        receive: Callable[[Gain], object],
    ) -> None:
        self._cancelled = Cancellation(cancelled)
        self._steps = engine.generate(requests, self._cancelled)
        self._receive = receive

    def begin(self) -> None:
        threading.Thread(target=self._run, name="answers", daemon=True).start()

    def cancelled(self) -> list[Delta]:
        self._cancelled.set()
        return [delta for deltas in self._steps for delta in deltas]

    def abandon(self) -> None:
        self._cancelled.set()

    def _run(self) -> None:
        try:
            for deltas in self._steps:
                self._receive(partial(list, deltas))
        except BaseException as error:
            self._receive(partial(_throw, error))


def _throw(error: BaseException) -> list[Delta]:
    raise error


class Recording:
    """An engine that passes requests on to the real one and keeps them."""

    def __init__(self, chat: Chat | Model) -> None:
        self.gpt, self.inner = chat.gpt, chat.gpt.engine
        self.requests: list[GenerationRequest] = []
        if self.gpt.pushes is not None:
            self.answers = partial(ThreadedAnswers, self)

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        self.requests.extend(requests)
        return self.inner.generate(requests, cancelled)

    def close(self) -> None:
        self.inner.close()

    def __enter__(self) -> "Recording":
        self.gpt.engine = self
        return self

    def __exit__(self, *_: object) -> None:
        self.gpt.engine = self.inner


class FailsAtFirst(Recording):
    """An engine whose first ``times`` attempts fail; subclasses define failure and success."""

    def __init__(self, chat: Chat, times: int) -> None:
        super().__init__(chat)
        self.times = times

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        self.requests.extend(requests)
        fails = requests[0].key.attempt < self.times
        return (self.fail if fails else self.succeed)(requests, cancelled)

    def fail(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        return self.inner.generate(requests, cancelled)

    def succeed(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        return self.inner.generate(requests, cancelled)


class EndsAtOnce(FailsAtFirst):
    """An engine whose failed attempts end at their first frame."""

    def fail(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        ids, hiddens = torch.empty(0, 4, dtype=torch.int64), torch.empty(0, 64)
        yield [Delta(i, ids, hiddens, FinishReason.STOP) for i in range(len(requests))]


class FindsNoEnd(FailsAtFirst):
    """An engine whose failed attempts run to their limit; the others draw the end there."""

    def succeed(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        for deltas in self.inner.generate(requests, cancelled):
            is_over = any(delta.finish is not None for delta in deltas)
            yield [replace(d, finish=FinishReason.STOP) if is_over else d for d in deltas]
