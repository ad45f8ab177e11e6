"""A recording: the pieces of a script in order, and the file of the whole work."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples, StrPath
from ..audio.subtitles import check_subtitles, save_subtitles
from ..config.mark import Mark, day_made, today
from ..errors import ChatTTSError, ConfigError
from ..pipeline.results import Word
from .arrange import ArrangedLine, arrange
from .cover import NO_PICTURE, is_picture
from .lateness import mixed, settled, told
from .line_speaker import LineSpeaker
from .line_store import LineStore, SpokenLine
from .loudness import gain_for, limited, measured
from .planned import PlannedLine
from .script import Join, Line, Script
from .settings import LEAST_PEAK, Late, Loudness, ReadSettings
from .sound_file import Chapter, SoundFile, WorkInfo, check_sound_file, is_lossy

logger = logging.getLogger(__name__)

_BLOCK = SAMPLE_RATE
# The limiter takes some loudness away; it is given back until so many LU are missing.
_NEAR = 0.1
_MOST_PASSES = 4
# Decibels by which peaks stay lower in lossy formats: their decoders put some back.
_LOSSY_HEADROOM = 1.0
# A cue that begins later than this is reported, in seconds.
_LATE = 0.05


@dataclass(frozen=True)
class SpokenPiece:
    """One line of a recording.

    Attributes:
        number: of the line in the script, from 0.
        line: of the script, with its voice and chapter.
        position: of the first sample in the recording.
        samples: float32 (n,) at 24 kHz; empty for silence alone.
        silence_before: samples of silence between the piece before and this one, beside its own.
        silence_after: samples of silence after this one.
        words: where their times were asked for; they count from the recording's beginning, and
            their characters from the beginning of the line's text.
    """

    number: int
    line: Line
    position: int
    samples: Samples
    silence_before: int
    silence_after: int
    words: tuple[Word, ...] = ()

    @property
    def end(self) -> int:
        """The first sample after the piece and its silence."""
        return self.position + len(self.samples) + self.silence_after


@dataclass(frozen=True)
class _Survey:
    """The measurements of a work after it was heard once."""

    chapters: tuple[Chapter, ...]
    length: int
    gain: float


class Recording:
    """The speech of a script, made when it is iterated or saved.

    Every iteration gives all pieces from the beginning; lines that were spoken before are read from
    the folder. Leave its context, or call :meth:`close`, to delete a temporary folder.

    Attributes:
        script: the lines, as they are spoken.

    Args:
        plan: the calls of these lines.
        speaker: speaks them.
        store: their results.
        settings: of the reading.
        temporary: the folder, if it is deleted at the end.
        warn: called with each warning, which names its line; it is logged by default.
    """

    def __init__(
        self,
        script: Script,
        plan: Sequence[PlannedLine],
        speaker: LineSpeaker,
        store: LineStore,
        settings: ReadSettings,
        temporary: TemporaryDirectory[str] | None = None,
        warn: Callable[[str], None] = logger.warning,
    ) -> None:
        self.script = script
        self._warn = warn
        self._plan, self._speaker, self._store = plan, speaker, store
        self._settings, self._temporary = settings, temporary
        # Each iteration makes every piece again.
        self._told_late: set[int] = set()
        self._told_unfitting: set[int] = set()

    @property
    def chapters(self) -> tuple[str, ...]:
        """The titles of the chapters."""
        return self.script.chapters

    @property
    def speakers(self) -> tuple[str | None, ...]:
        """The voices that the lines name, each once, in order; ``None`` for the default voice."""
        return tuple(dict.fromkeys(line.voice for line in self.script.lines if line.text))

    @property
    def lines_kept(self) -> int:
        """The number of lines that need no model any more."""
        return sum(planned.key is None or planned.key in self._store for planned in self._plan)

    def __iter__(self) -> Iterator[SpokenPiece]:
        """Iterate over the pieces in order; errors as :meth:`LineSpeaker.lines`."""
        cursor = 0
        tail: Samples = np.zeros(0, dtype=np.float32)  # of lines that the next one overlaps
        for number, (planned, spoken) in enumerate(self._speaker.lines(self._plan)):
            piece = self._piece(number, planned, spoken, cursor)
            if self._settings.late is Late.OVERLAP:
                piece, tail = self._overlapped(piece, tail)
            cursor = piece.end
            yield piece

    def spoken_lines(self) -> Iterator[tuple[Line, SpokenLine]]:
        """Iterate over the lines as the model speaks them, before pauses, tempo and times."""
        for planned, spoken in self._speaker.lines(self._plan):
            yield planned.line, spoken

    def levelled(self, target: Loudness | None = None) -> Iterator[SpokenPiece]:
        """Iterate over the pieces at a loudness, for listeners who do not wait for the whole work.

        The gain of a voice is measured in the first line that it speaks, and stays. A line shorter
        than 400 ms has no loudness, so it gets the gain of the voice before.

        Args:
            target: -16 LUFS by default.
        """
        target = target or Loudness()
        gains: dict[str | None, float] = {}
        gain = 1.0
        for piece in self:
            if not len(piece.samples):
                yield piece
                continue
            voice = piece.line.voice
            if voice not in gains and math.isfinite(level := measured([piece.samples])[0]):
                gains[voice] = gain_for(level, target)
            gain = gains.get(voice, gain)
            samples = np.concatenate(list(limited([piece.samples], gain, target.true_peak)))
            yield replace(piece, samples=samples)

    def save(
        self,
        path: StrPath,
        loudness: Loudness | None = Loudness(),  # noqa: B008  it is frozen
        *,
        subtitles: StrPath | None = None,
        heard: Callable[[SpokenPiece], None] | None = None,
        mark: Mark | bool = True,
    ) -> Path:
        """Write the whole work to a file and return its path.

        The work is heard once to measure it, and once to write it. The file appears under its name
        when it is complete.

        Args:
            path: ``.m4b``, ``.m4a``, ``.mp3``, ``.opus``, ``.flac`` or ``.wav``. All of them but
                ``.wav`` have chapters, title, author and cover.
            loudness: of the work; ``None`` leaves the samples as the model gives them.
            subtitles: also write subtitles (.srt, .vtt, .ass, .lrc, .json); the settings must ask
                for ``word_times``.
            heard: called with each piece when it is spoken, in order.
            mark: as ``ChatTTS.save``; its day is by default the one on which the first line was
                spoken, so that a reading that was stopped gives the file of an undisturbed one.

        Raises:
            AudioError: the file cannot be written, or a package for it is missing.
            ScriptError: a line cannot be spoken.
        """
        target = Path(path)
        check_sound_file(target)
        if subtitles is not None:
            check_subtitles(subtitles)
            if not self._settings.word_times:
                raise ConfigError("subtitles need ReadSettings(word_times=True)")
        if loudness is not None:
            loudness = _with_headroom(loudness, target)
        survey = self._survey(loudness, heard)
        cover = self.script.cover
        if cover is not None and not is_picture(cover):
            logger.warning("%s, and is left out", NO_PICTURE)
            cover = None
        about = WorkInfo(self.script.title, self.script.author, survey.chapters, cover)
        ceiling = 0.0 if loudness is None else loudness.true_peak
        sound = self._sound()
        with SoundFile(target, about, self._dated(mark)) as file:
            for samples in sound if loudness is None else limited(sound, survey.gain, ceiling):
                file.write(samples)
        if subtitles is not None:
            self.save_subtitles(subtitles)
        return target

    def save_subtitles(self, path: StrPath) -> None:
        """Write subtitles of all words; errors as ``ChatTTS.audio.save_subtitles``."""
        starts, position = [], 0
        for line in self.script.lines:
            starts.append(position)
            position += len(line.text) + len(_between(line))
        words = [
            replace(
                word,
                start_character=word.start_character + starts[piece.number],
                end_character=word.end_character + starts[piece.number],
            )
            for piece in self
            for word in piece.words
        ]
        whole = "".join(part for line in self.script.lines for part in (line.text, _between(line)))
        save_subtitles(path, words, whole.rstrip("\n"))

    def marks(self) -> dict[str, float]:
        """Return the seconds at which the marks of the script lie."""
        return {name: piece.position / SAMPLE_RATE for piece in self for name in piece.line.marks}

    def remove_kept(self) -> None:
        """Delete the spoken lines, and their folder if nothing else is in it."""
        self._store.remove()

    def close(self) -> None:
        """Delete a temporary folder; a folder of the caller's stays."""
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the sound -------------------------------------------------------------------------

    def _piece(
        self, number: int, planned: PlannedLine, spoken: SpokenLine, cursor: int
    ) -> SpokenPiece:
        """Return a line at its place, after ``cursor`` samples of the recording."""
        line = planned.line
        before = _samples_in(self._settings.silence_before) if number == 0 else 0
        if line.at is not None:
            before = round(line.at * SAMPLE_RATE) - cursor
            if before < -_LATE * SAMPLE_RATE and number not in self._told_late:
                self._told_late.add(number)
                self._warn(
                    f"{line.place}: it begins {-before / SAMPLE_RATE:.2f} s late, since the cue "
                    "before it is too long"
                )
            before = max(0, before)
        position = cursor + before
        room = None
        if line.at is not None and line.room is not None:
            room = round((line.at + line.room) * SAMPLE_RATE) - position
        settings = self._settings
        if line.duration is not None:
            arranged = self._fitted(number, line, line.duration, spoken)
        else:
            arranged = arrange(
                spoken,
                settings.pauses,
                planned.tempo,
                room=room,
                fastest=settings.fastest,
                cuts_start=self._cuts_start(number),
                cuts_end=self._cuts_end(number),
            )
        return SpokenPiece(
            number,
            line,
            position,
            arranged.samples,
            before,
            self._silence_after(number),
            tuple(word.shifted(position) for word in arranged.words),
        )

    def _cuts_start(self, number: int) -> bool:
        """Return whether the silence before a line has an exact length."""
        if number > 0 and self.script.lines[number - 1].is_exact:
            return True
        is_first = number == self._spoken_lines[0]
        has_time = self.script.lines[number].at is not None
        return is_first and not has_time and self._settings.silence_before is not None

    def _cuts_end(self, number: int) -> bool:
        is_last = number == self._spoken_lines[1]
        return self.script.lines[number].is_exact or (
            is_last and self._settings.silence_after is not None
        )

    @cached_property
    def _spoken_lines(self) -> tuple[int, int]:
        """The numbers of the first and the last line with something to speak; -1 for none."""
        numbers = [n for n, planned in enumerate(self._plan) if planned.key is not None]
        return (numbers[0], numbers[-1]) if numbers else (-1, -1)

    def _fitted(self, number: int, line: Line, duration: float, spoken: SpokenLine) -> ArrangedLine:
        """Return the speech of a line that has a duration: as it is, unless that is too short."""
        fitted = ArrangedLine(spoken.samples, spoken.words)
        target, late = round(duration * SAMPLE_RATE), self._settings.late
        length = len(fitted.samples)
        if length <= target:
            return fitted
        if number not in self._told_unfitting:
            self._told_unfitting.add(number)
            self._warn(f"{line.place}: {told(length, target, late, self._settings.fastest)}")
        return settled(fitted, target, late, self._settings.fastest)

    def _overlapped(self, piece: SpokenPiece, tail: Samples) -> tuple[SpokenPiece, Samples]:
        """Return a piece with what goes on of earlier ones, and what goes on during the next."""
        samples, rest = mixed(piece.samples, tail), tail[:0]
        lines = self.script.lines
        following = lines[piece.number + 1] if piece.number + 1 < len(lines) else None
        if following is not None and following.at is not None:
            room = max(0, round(following.at * SAMPLE_RATE) - piece.position)
            samples, rest = samples[:room], samples[room:]
        return replace(piece, samples=samples), rest

    def _silence_after(self, number: int) -> int:
        """Return the silence after a line; that at an end of the work replaces its pauses."""
        lines, settings = self.script.lines, self._settings
        line, pauses = lines[number], settings.pauses
        first, last = self._spoken_lines
        if settings.silence_after is not None and number >= last:
            return _samples_in(settings.silence_after) if number == last else 0
        if settings.silence_before is not None and number < first and lines[first].at is None:
            return 0
        if line.pause is not None:
            return round(line.pause * SAMPLE_RATE)
        if number + 1 == len(lines):
            return 0
        following = lines[number + 1]
        if following.at is not None:
            return 0
        is_chapter = following.chapter != line.chapter
        return round((pauses.chapter if is_chapter else pauses.after(line.join)) * SAMPLE_RATE)

    def _sound(self) -> Iterator[Samples]:
        return chain.from_iterable(map(_samples_of, self))

    def _dated(self, mark: Mark | bool) -> Mark | None:
        if mark is False:
            return None
        keys = (planned.key for planned in self._plan if planned.key is not None)
        began = self._store.began(keys)
        day = today() if began is None else day_made(began)
        return (Mark() if mark is True else mark).on(day)

    def _survey(
        self, loudness: Loudness | None, heard: Callable[[SpokenPiece], None] | None
    ) -> _Survey:
        """Hear the whole work once, and more often where the limiter changes its loudness."""
        starts: dict[int, int] = {}
        length = 0

        def samples() -> Iterator[Samples]:
            nonlocal length
            for piece in self:
                starts.setdefault(piece.line.chapter, piece.position)
                length = piece.end
                if heard is not None:
                    heard(piece)
                yield from _samples_of(piece)

        if loudness is None:
            for _ in samples():
                pass
            gain = 1.0
        else:
            gain = self._gain(samples(), loudness)
        if not length:
            raise ChatTTSError("the script gave no sound: there is nothing in it to speak")
        begins = [*list(starts.values())[1:], length]
        chapters = tuple(
            Chapter(self.script.chapters[number], start, end)
            for (number, start), end in zip(starts.items(), begins, strict=True)
        )
        first = (replace(chapters[0], start=0), *chapters[1:])
        return _Survey(first, length, gain)

    def _gain(self, samples: Iterable[Samples], loudness: Loudness) -> float:
        level, peak = measured(samples)
        gain = gain_for(level, loudness)
        if gain * peak <= 10 ** (loudness.true_peak / 20) / 1.05:
            return gain
        for _ in range(_MOST_PASSES):
            level, _ = measured(limited(self._sound(), gain, loudness.true_peak))
            if abs(level - loudness.lufs) < _NEAR:
                break
            gain *= gain_for(level, loudness)
        return gain


def _samples_in(seconds: float | None) -> int:
    return round((seconds or 0.0) * SAMPLE_RATE)


def _between(line: Line) -> str:
    """Return what parts a line from the next one in the text of subtitles.

    No subtitle goes over a blank line, such as from a heading to the sentence below it.
    """
    return "\n" if line.join in (Join.NONE, Join.PHRASE, Join.SENTENCE) else "\n\n"


def _with_headroom(loudness: Loudness, path: Path) -> Loudness:
    """Return the loudness to write, with lower peaks in a lossy format."""
    if not is_lossy(path):
        return loudness
    return replace(loudness, true_peak=max(loudness.true_peak - _LOSSY_HEADROOM, LEAST_PEAK))


def _samples_of(piece: SpokenPiece) -> Iterator[Samples]:
    """Yield the sound of a piece with its silence, in blocks of a second at most."""
    for silence in (piece.silence_before, None, piece.silence_after):
        if silence is None:
            if len(piece.samples):
                yield piece.samples
            continue
        for start in range(0, silence, _BLOCK):
            yield np.zeros(min(_BLOCK, silence - start), dtype=np.float32)
