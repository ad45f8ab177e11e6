"""SSML in a request: its segments, each with a voice and a tempo, spoken one after another."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from ...audio.samples import SAMPLE_RATE
from ...audio.tempo import Tempo
from ...errors import NothingToSpeakError
from ...longform.marks import expanded
from ...longform.script import Join, Line, ScriptError
from ...longform.settings import Pauses
from ...longform.ssml import read_ssml
from ...pipeline.results import Fault, Piece, Word
from ...text.pauses import LONGEST_PAUSE
from ...text.splitter import is_speakable
from ..errors import BadRequestError
from .jobs import PieceStream, SpeechJob

_SSML = re.compile(r"\A\s*(<\?xml[^>]*>\s*)?<speak[\s>/]", re.IGNORECASE)
_ENDING = re.compile(r"</speak\s*>|<speak[^<>]*/>", re.IGNORECASE)
_REASONS = ("stop", "length", "abort")  # from the best end to the worst

M = TypeVar("M", Word, Fault)


@dataclass(frozen=True)
class Segment:
    """A part of a text that one voice speaks in one tempo.

    Attributes:
        text: empty for silence alone.
        start: its first character in the whole text.
        voice: its name; ``None`` is the voice of the request.
        tempo: factor of the tempo.
        pause: seconds of silence after it.
        duration: seconds that its speech shall take; ``None`` for as long as it takes.
    """

    text: str
    start: int
    voice: str | None
    tempo: float
    pause: float
    duration: float | None = None


@dataclass(frozen=True)
class MarkedText:
    """The text of an SSML document.

    The attributes are those of ``SpeechRequest``.

    Attributes:
        text: what is spoken, a line for each segment.
        segments: in order.
        warnings: what was left out, each with its line.
    """

    text: str
    segments: tuple[Segment, ...]
    warnings: tuple[str, ...]


def is_ssml(text: str) -> bool:
    """Return whether a text begins with ``<speak``."""
    return _SSML.match(text) is not None


def read_marked(text: str, *, strict: bool = False) -> MarkedText:
    """Return the segments of an SSML document.

    Args:
        strict: whether what would be left out is an error.

    Raises:
        BadRequestError: it cannot be read, has nothing to speak, or pauses that are too long.
    """
    try:
        script = read_ssml(text, "input")
        if strict:
            script.check_strict()
        script = expanded(script)
    except ScriptError as error:
        rest = "" if _ENDING.search(text) else "; its end, </speak>, has not come"
        raise BadRequestError(f"{error}{rest}", param="input") from error
    lines = script.lines
    if not any(is_speakable(line.text) for line in lines):
        raise BadRequestError("there is nothing to speak in the SSML document", param="input")
    segments: list[Segment] = []
    start = 0
    for number, line in enumerate(lines):
        pause = _pause(line, is_last=number + 1 == len(lines))
        segments.append(
            Segment(line.text, start, line.voice, line.style.tempo, pause, line.duration)
        )
        start += len(line.text) + 1
    if sum(segment.pause for segment in segments) > LONGEST_PAUSE:
        raise BadRequestError(
            f"the pauses in the text add up to more than {LONGEST_PAUSE:g} s", param="input"
        )
    return MarkedText("\n".join(s.text for s in segments), tuple(segments), script.warnings)


def _pause(line: Line, *, is_last: bool) -> float:
    if line.pause is not None:
        return line.pause
    return Pauses().paragraph if line.join is Join.PARAGRAPH and not is_last else 0.0


class StreamOpener(Protocol):
    """The part of a ``SpeechModel`` that starts streams."""

    async def open_stream(self, job: SpeechJob, interrupt: threading.Event) -> PieceStream:
        """Start to generate; ``interrupt`` ends it."""


class SegmentStream:
    """A :class:`.jobs.PieceStream` of several segments; the next one is begun ahead.

    Args:
        model: speaks the jobs.
        jobs: one for each segment; ``None`` for silence alone.
        segments: their tempo, places and pauses.
        interrupt: ends the generation.

    Attributes:
        utterances: of the segments that were begun.
        left_out: what the voices cannot speak of these.
        finish_reason: ``stop``, ``length`` or ``abort``; ``None`` before the end.
    """

    def __init__(
        self,
        model: StreamOpener,
        jobs: Sequence[SpeechJob | None],
        segments: Sequence[Segment],
        interrupt: threading.Event,
    ) -> None:
        self.utterances: list[object] = []
        self.left_out: tuple[str, ...] = ()
        self.finish_reason: str | None = None
        self._model, self._interrupt = model, interrupt
        self._segments, self._coming = segments, deque(zip(segments, jobs, strict=True))
        self._languages: tuple[str, ...] = ()  # of the voice, where it could not speak a segment
        self._current: _SpokenSegment | None = None
        self._next: _SpokenSegment | None = None
        self._samples = 0
        self._last: Piece | None = None
        self._reason = "stop"

    async def open(self) -> None:
        """Begin the first segment that has something to speak.

        Raises:
            ChatTTSError: it cannot be spoken, or none of them has anything to speak.
        """
        self._current = await self._begin()
        if self._current is None:
            text = "\n".join(segment.text for segment in self._segments)
            raise NothingToSpeakError(text, self.left_out, self._languages)

    async def __anext__(self) -> Piece:
        while self._current is not None:
            current = self._current
            if self._next is None:
                self._next = await self._begin(len(self.utterances))
            piece = await current.next_piece(self._samples, self._last)
            if piece is not None:
                self._samples += len(piece.samples)
                self._last = piece
                return piece
            self._reason = max(self._reason, current.reason, key=_REASONS.index)
            await asyncio.to_thread(current.close)
            self._current, self._next = self._next, None
            if self._reason == "abort":
                break
        self.finish_reason = self._reason
        raise StopAsyncIteration

    def close(self) -> None:
        """End the generation and wait for that; called in a thread beside the asyncio loop."""
        for segment in (self._current, self._next):
            if segment is not None:
                segment.close()

    async def _begin(self, first: int = 0) -> _SpokenSegment | None:
        """Begin the next segment with speech; silence before it becomes a part of it."""
        silence = 0.0
        while self._coming and not self._interrupt.is_set():
            segment, job = self._coming.popleft()
            if job is not None:
                try:
                    job = replace(job, first_utterance=job.first_utterance + first)
                    stream = await self._model.open_stream(job, self._interrupt)
                except NothingToSpeakError as error:
                    self._languages = error.languages
                    self._note_left_out(error.left_out)
                    silence += segment.pause
                    continue
                self.utterances += stream.utterances
                self._note_left_out(stream.left_out)
                return _SpokenSegment(segment, stream, first, silence)
            silence += segment.pause
        if silence and first:
            return _SpokenSegment(Segment("", 0, None, 1.0, 0.0), None, first, silence)
        return None

    def _note_left_out(self, left_out: Sequence[str]) -> None:
        self.left_out = tuple(dict.fromkeys((*self.left_out, *left_out)))


class _SpokenSegment:
    """A segment while it is spoken.

    Args:
        stream: ``None`` for silence alone.
        first: number of its first utterance in the whole text.
        silence: seconds of silence before it.
    """

    def __init__(
        self, segment: Segment, stream: PieceStream | None, first: int, silence: float
    ) -> None:
        self._segment, self._stream, self._first = segment, stream, first
        self._silence, self._pause = (
            round(seconds * SAMPLE_RATE) for seconds in (silence, segment.pause)
        )
        self._start: int | None = None
        self._tempo = None if segment.tempo == 1 else Tempo(segment.tempo, SAMPLE_RATE)
        self._words: list[Word] = []
        self._faults: list[Fault] = []

    @property
    def reason(self) -> str:
        """The reason for which it ended."""
        return "stop" if self._stream is None else self._stream.finish_reason or "abort"

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    async def next_piece(self, position: int, last: Piece | None) -> Piece | None:
        """Return the next piece, at its place in the whole; ``None`` at the end.

        Args:
            position: of its first sample.
            last: the piece before.
        """
        while True:
            if self._silence:
                silence, self._silence = self._silence, 0
                return self._silent(silence, position, last)
            if self._start is None:
                self._start = position
            if self._stream is None:
                return None
            try:
                piece = await self._stream.__anext__()
            except StopAsyncIteration:
                return self._end(position, last)
            placed = self._placed(piece, position)
            if placed is not None:
                return placed

    def _end(self, position: int, last: Piece | None) -> Piece | None:
        """Return the rest of the sound, then the silence after it, then ``None``."""
        if self._tempo is not None:
            rest, self._tempo = self._tempo.finish(), None
            if len(rest) and last is not None:
                return replace(
                    last,
                    samples=rest,
                    position=position,
                    finish_reason=None,
                    words=tuple(self._words),
                    faults=tuple(self._faults),
                )
        pause, self._pause = self._pause, 0
        return self._silent(pause, position, last) if pause else None

    def _silent(self, samples: int, position: int, last: Piece | None) -> Piece:
        silence = np.zeros(samples, dtype=np.float32)
        if last is None:
            return Piece(silence, position, self._first, "", None)
        return replace(
            last, samples=silence, position=position, finish_reason=None, words=(), faults=()
        )

    def _placed(self, piece: Piece, position: int) -> Piece | None:
        """Return a piece of the stream in the whole; ``None`` if it gives no sample yet."""
        samples = piece.samples if self._tempo is None else self._tempo.push(piece.samples)
        self._words += (self._moved(word) for word in piece.words)
        self._faults += (self._moved(fault) for fault in piece.faults)
        if not len(samples):
            return None
        words, self._words = tuple(self._words), []
        faults, self._faults = tuple(self._faults), []
        return replace(
            piece,
            samples=samples,
            position=position,
            utterance=piece.utterance + self._first,
            words=words,
            faults=faults,
        )

    def _moved(self, part: M) -> M:
        assert self._start is not None
        tempo, characters = self._segment.tempo, self._segment.start
        first, last = (
            self._start + round(place / tempo) for place in (part.start_sample, part.end_sample)
        )
        return replace(
            part,
            start=first / SAMPLE_RATE,
            end=last / SAMPLE_RATE,
            start_sample=first,
            end_sample=last,
            start_character=part.start_character + characters,
            end_character=part.end_character + characters,
        )
