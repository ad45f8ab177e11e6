"""What the tests of ``Chat`` share: quick settings, and an engine that can be watched."""

from collections.abc import Iterator, Sequence

import numpy as np

from ChatTTS.core import Chat
from ChatTTS.model.generation import Cancellation, Delta, GenerationRequest
from ChatTTS.pipeline.model import Model

TEXT = "hello the world, this is one good day."
LIVELY = {
    "temperature": 1.0,
    "min_new_token": 40,
    "max_new_token": 40,
    "manual_seed": 3,
    "ensure_non_empty": False,
}


def speak(chat: Chat, text: str | list[str], **changes: object) -> list[np.ndarray]:
    params = chat.InferCodeParams(**{**LIVELY, **changes})
    return chat.infer(text, skip_refine_text=True, params_infer_code=params)


def equal(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> bool:
    return len(first) == len(second) and all(
        np.array_equal(a, b) for a, b in zip(first, second, strict=True)
    )


class Recording:
    """Stands before an engine and keeps the requests."""

    def __init__(self, chat: Chat | Model) -> None:
        self.gpt, self.inner = chat.gpt, chat.gpt.engine
        self.requests: list[GenerationRequest] = []

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        self.requests.extend(requests)
        return self.inner.generate(requests, cancelled)

    def __enter__(self) -> "Recording":
        self.gpt.engine = self
        return self

    def __exit__(self, *_: object) -> None:
        self.gpt.engine = self.inner
