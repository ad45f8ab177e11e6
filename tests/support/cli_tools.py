"""Fakes for the tests of ``chattts say``: a ``Chat`` that records the arguments of its calls."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio.samples import Samples
from ChatTTS.config import AlignmentHeads
from ChatTTS.model.generation import FinishReason
from ChatTTS.pipeline.results import Piece, SpokenText, SpokenUtterance, Waveforms, Word
from ChatTTS.text import Normalizer

RATE = 24_000
TONE = (0.5 * np.sin(np.arange(RATE) / 10)).astype(np.float32)
Run = Callable[..., tuple[int, bytes, str]]


class FakeChat:
    """A ``Chat`` that speaks a second of a tone, in three pieces when it streams.

    Attributes:
        loaded, asked: the arguments of the latest ``load_or_raise``, and ``infer`` or ``stream``.
        streamed: the stream that the latest ``stream`` returned.
    """

    finish = FinishReason.STOP
    spoken = TONE
    failure: BaseException | None = None
    alignment_heads: AlignmentHeads = ()
    gives_attention = True
    speaker: str | None = None

    def __init__(self) -> None:
        self.device = SimpleNamespace(type="cpu")
        self.normalizer = Normalizer()
        self.config = SimpleNamespace(gpt=SimpleNamespace(hidden_size=256))
        self.loaded: dict[str, Any] = {}
        self.asked: dict[str, Any] = {}
        self.streamed: FakeStream | None = None

    def load_or_raise(self, source: str, **options: Any) -> None:
        self.loaded = {"source": source, **options}

    def sample_audio_speaker(self, wav: Any) -> str:
        return f"codes of {wav}"

    def infer(self, text: str, **arguments: Any) -> Any:
        self.asked = {"text": text, **arguments}
        if arguments.get("refine_text_only"):
            return f"{text} [uv_break]"
        if self.failure is not None:
            raise self.failure
        return Waveforms([self.spoken], [self.row(text)])

    def stream(self, text: str, **arguments: Any) -> FakeStream:
        self.asked = {"text": text, **arguments}
        self.streamed = FakeStream(self, self.row(text))
        return self.streamed

    def row(self, text: str) -> SpokenText:
        end = len(self.spoken)
        words = []
        if self.asked.get("word_times"):
            words.append(Word(text, 0.0, end / RATE, 0, end, 0, len(text), 1.0))
        return SpokenText([SpokenUtterance(text, end, self.finish, words)], speaker=self.speaker)


class FakeStream:
    """A stream of three pieces, and then of the chat's ``failure`` if it has one.

    Attributes:
        is_left: whether the command has left its context.
        events: the events of the sound device until then.
    """

    def __init__(self, chat: FakeChat, row: SpokenText) -> None:
        self.rows, self._chat = [row], chat
        self._left = np.array_split(chat.spoken, 3)
        self.is_left = False
        self.events: list[str] = []

    def __next__(self) -> Piece:
        if self._left:
            return Piece(self._left.pop(0), 0, 0, self.rows[0].utterances[0].text, None)
        raise self._chat.failure or StopIteration

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __enter__(self) -> FakeStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.is_left = True
        played = getattr(sys.modules.get("sounddevice"), "streams", ())
        self.events = [event for stream in played for event in stream.events]


def pipe_in(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def pcm(samples: Samples) -> bytes:
    values: NDArray[np.int16] = np.rint(samples * 32768).astype("<i2")
    return values.tobytes()
