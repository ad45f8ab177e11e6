"""SSML as segments, each with a voice and a tempo, spoken one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ..audio.samples import SAMPLE_RATE
from ..audio.tempo import Tempo
from ..pipeline.results import Fault, Piece, Word
from ..text.pauses import LONGEST_PAUSE
from ..text.splitter import is_speakable
from .marks import expanded
from .script import Join, ScriptError
from .settings import Pauses
from .ssml import read_ssml

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
        is_exact: whether the pause is all that is silent there, as that of a break.
        duration: seconds that its speech shall take; ``None`` for as long as it takes.
        ends_paragraph: whether the pause is that between two paragraphs.
    """

    text: str
    start: int
    voice: str | None
    tempo: float
    pause: float
    is_exact: bool = False
    duration: float | None = None
    ends_paragraph: bool = False


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


def segments_of(text: str, *, strict: bool = False) -> MarkedText:
    """Return the segments of an SSML document.

    Args:
        strict: whether what would be left out is an error.

    Raises:
        ScriptError: it cannot be read, has nothing to speak, or pauses that are too long.
    """
    script = read_ssml(text, "input")
    if strict:
        script.check_strict()
    script = expanded(script)
    lines = script.lines
    if not any(is_speakable(line.text) for line in lines):
        raise ScriptError("there is nothing to speak in the SSML document")
    segments: list[Segment] = []
    start = 0
    for number, line in enumerate(lines):
        is_last = number + 1 == len(lines)
        ends_paragraph = line.pause is None and line.join is Join.PARAGRAPH and not is_last
        segments.append(
            Segment(
                line.text,
                start,
                line.voice,
                line.style.tempo,
                Pauses().paragraph if ends_paragraph else line.pause or 0.0,
                line.is_exact,
                line.duration,
                ends_paragraph,
            )
        )
        start += len(line.text) + 1
    if sum(segment.pause for segment in segments) > LONGEST_PAUSE:
        raise ScriptError(f"the pauses in the text add up to more than {LONGEST_PAUSE:g} s")
    return MarkedText("\n".join(s.text for s in segments), tuple(segments), script.warnings)


def with_silence(
    segments: Sequence[Segment],
    before: float | None,
    after: float | None,
    between: float | None,
) -> tuple[Segment, ...]:
    """Return segments with exact silence before the first and after the last sound.

    Args:
        before, after: seconds, in place of those of breaks; ``None`` changes nothing.
        between: seconds between two paragraphs, likewise.
    """
    spoken = [number for number, segment in enumerate(segments) if segment.text]
    kept = list(segments)
    if between is not None:
        ends = [number for number, segment in enumerate(segments) if segment.ends_paragraph]
        for number in ends:
            kept[number] = _parted(segments, number, between)
    if after is not None:
        last = spoken[-1]
        kept[last:] = [replace(segments[last], pause=after, is_exact=True)]
    if before is not None:
        kept[: spoken[0]] = [Segment("", 0, None, 1.0, before, is_exact=True)]
    return tuple(kept)


def _parted(segments: Sequence[Segment], number: int, between: float) -> Segment:
    """Return a segment that ends a paragraph, with the pause after it.

    A pause that is written there stands alone, and the end of all speech is no border.
    """
    segment = segments[number]
    has_words = is_speakable(segment.text)
    follows_words = has_words or any(is_speakable(each.text) for each in segments[:number])
    for following in segments[number + 1 :]:
        if is_speakable(following.text) and follows_words:
            # Of paragraphs without words between two others, none adds to the pause.
            return replace(segment, pause=between if has_words else 0.0, is_exact=True)
        if following.pause and not following.ends_paragraph:
            break
    return replace(segment, pause=0.0)


def before_tempo(segments: Sequence[Segment], tempo: float) -> tuple[Segment, ...]:
    """Return segments with the durations that their speech has before a tempo is changed."""
    return tuple(
        each if each.duration is None else replace(each, duration=each.duration * tempo)
        for each in segments
    )


def cuts_of(segments: Sequence[Segment]) -> list[dict[str, float | None]]:
    """Return the fields of a job for each segment: its duration, and cuts where a pause is exact.

    One that has a duration begins and ends with its sound anyway.
    """
    spoken = [number for number, segment in enumerate(segments) if segment.text]
    cuts: list[dict[str, float | None]] = [{} for _ in segments]
    for place, number in enumerate(spoken):
        start = spoken[place - 1] if place else 0
        stop = spoken[place + 1] if place + 1 < len(spoken) else len(segments)
        sides = {
            "silence_before": segments[start:number],
            "silence_after": segments[number:stop],
        }
        is_free = segments[number].duration is None
        cuts[number] = {
            name: 0.0 if any(each.is_exact for each in side) and is_free else None
            for name, side in sides.items()
        } | {"duration": segments[number].duration}
    return cuts


class SegmentSound:
    """The sound of a segment, with its tempo and the silence around it.

    Call :meth:`before`, :meth:`placed` with each piece of its speech, and :meth:`after` until it
    returns ``None``.

    Args:
        segment: silence alone has no pieces.
        first: number of its first utterance in the whole text.
        silence: seconds of silence before it.
    """

    def __init__(self, segment: Segment, first: int, silence: float) -> None:
        self._segment, self._first = segment, first
        self._silence, self._pause = (
            round(seconds * SAMPLE_RATE) for seconds in (silence, segment.pause)
        )
        self._start: int | None = None
        self._tempo = None if segment.tempo == 1 else Tempo(segment.tempo, SAMPLE_RATE)
        self._words: list[Word] = []
        self._faults: list[Fault] = []

    def before(self, position: int, last: Piece | None) -> Piece | None:
        """Return the silence before it; ``None`` once there is none left.

        Args:
            position: of the next sample in the whole.
            last: the piece before.
        """
        if self._silence:
            silence, self._silence = self._silence, 0
            return self._silent(silence, position, last)
        if self._start is None:
            self._start = position
        return None

    def after(self, position: int, last: Piece | None) -> Piece | None:
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

    def placed(self, piece: Piece, position: int) -> Piece | None:
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
