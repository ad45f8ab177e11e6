"""SSML in a request: its segments, each with a voice and a tempo, spoken one after another."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ...errors import NothingToSpeakError
from ...longform.script import ScriptError
from ...longform.segments import MarkedText, Segment, SegmentSound, cuts_of, segments_of
from ...pipeline.results import Piece
from ..errors import BadRequestError
from .jobs import PieceStream, SpeechJob

_ENDING = re.compile(r"</speak\s*>|<speak[^<>]*/>", re.IGNORECASE)
_REASONS = ("stop", "length", "abort")  # from the best end to the worst


def read_marked(text: str, *, strict: bool = False) -> MarkedText:
    """Return the segments of an SSML document.

    Args:
        strict: whether what would be left out is an error.

    Raises:
        BadRequestError: it cannot be read, has nothing to speak, or pauses that are too long.
    """
    try:
        return segments_of(text, strict=strict)
    except ScriptError as error:
        rest = "" if _ENDING.search(text) else "; its end, </speak>, has not come"
        raise BadRequestError(f"{error}{rest}", param="input") from error


def jobs_of(
    segments: Sequence[Segment], job: SpeechJob, voice: Callable[[str | None], Mapping[str, str]]
) -> list[SpeechJob | None]:
    """Return the job of each segment; ``None`` for silence alone.

    Args:
        job: of the whole text.
        voice: returns the parameters of a voice by its name.
    """
    return [
        replace(job, text=segment.text, voice=voice(segment.voice), **cuts)  # type: ignore[arg-type]
        if segment.text
        else None
        for segment, cuts in zip(segments, cuts_of(segments), strict=True)
    ]


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
                return _SpokenSegment(SegmentSound(segment, first, silence), stream)
            silence += segment.pause
        if silence and first:
            end = SegmentSound(Segment("", 0, None, 1.0, 0.0), first, silence)
            return _SpokenSegment(end, None)
        return None

    def _note_left_out(self, left_out: Sequence[str]) -> None:
        self.left_out = tuple(dict.fromkeys((*self.left_out, *left_out)))


class _SpokenSegment:
    """A segment while it is spoken.

    Args:
        sound: of the segment.
        stream: its speech; ``None`` for silence alone.
    """

    def __init__(self, sound: SegmentSound, stream: PieceStream | None) -> None:
        self._sound, self._stream = sound, stream

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
        silence = self._sound.before(position, last)
        if silence is not None or self._stream is None:
            return silence
        while True:
            try:
                piece = await self._stream.__anext__()
            except StopAsyncIteration:
                return self._sound.after(position, last)
            placed = self._sound.placed(piece, position)
            if placed is not None:
                return placed
