"""A script: lines in order, with the voice, the pause and the style of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from ..config.request_fields import LONGEST_DURATION
from ..errors import ChatTTSError, ConfigError, shown
from ..text.pauses import LONGEST_PAUSE

SLOWEST_TEMPO, FASTEST_TEMPO = 0.5, 2.0
# The place at the beginning of a warning.
_PLACED = re.compile(r"^(.{1,4096}?):(\d{1,9}): ")
# The longest novels have 4 MB of text. Lines are kept in memory, about a kilobyte each.
MOST_LINES = 200_000
# All silence of a script, and the last time of a cue, in seconds: a day.
LONGEST_WORK = 86_400.0
_LEVELS = {"speed": 9, "oral": 9, "laugh": 2, "breaks": 7}


class ScriptError(ChatTTSError, ValueError):
    """A script cannot be read or spoken; the message begins with the file and the line.

    Attributes:
        place: where it is wrong; ``None`` where that is not one place.
    """

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class Place:
    """A place in the source of a script.

    Attributes:
        file: its name, as the caller gave it.
        line: number of the line, from 1; 0 for the whole file.
    """

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def error(self, message: str) -> ScriptError:
        """Return the error with this place before the message."""
        return ScriptError(f"{self}: {message}", self)


@dataclass(frozen=True)
class Style:
    """The manner in which a line is spoken; ``None`` leaves a setting as the caller has it.

    Attributes:
        speed: the model's own tempo, from 0 to 9.
        tempo: factor of the tempo at unchanged pitch, from 0.5 to 2; it changes finished speech.
        temperature: of the draws.
        oral, laugh, breaks: levels of the refine pass, to 9, 2 and 7.
        seed: of the draws.
    """

    speed: int | None = None
    tempo: float = 1.0
    temperature: float | None = None
    oral: int | None = None
    laugh: int | None = None
    breaks: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name, most in _LEVELS.items():
            value = getattr(self, name)
            if value is not None and (type(value) is not int or not 0 <= value <= most):
                raise ConfigError(f"{name} must be a whole number to {most}, not {shown(value)}")
        for name, low, high in (
            ("tempo", SLOWEST_TEMPO, FASTEST_TEMPO),
            ("temperature", 0.0, 10.0),
        ):
            value = getattr(self, name)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (is_number and low <= value <= high):
                raise ConfigError(f"{name} must be from {low:g} to {high:g}, not {shown(value)}")
        if self.tempo is None:
            raise ConfigError("tempo must be a number, not None")
        if self.seed is not None and (type(self.seed) is not int or not 0 <= self.seed < 2**63):
            raise ConfigError(f"seed must be a whole number below 2**63, not {shown(self.seed)}")

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Style:
        """Return the style with these fields.

        Raises:
            ConfigError: a name or value is not valid.
        """
        unknown = sorted(set(values) - {f.name for f in fields(cls)})
        if unknown:
            raise ConfigError(f"a style has no {', '.join(unknown)}")
        return cls(**values)

    def over(self, other: Style) -> Style:
        """Return this style with the settings of ``other`` where this one has none."""
        own = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name != "tempo" and getattr(self, f.name) is not None
        }
        tempo = min(max(self.tempo * other.tempo, SLOWEST_TEMPO), FASTEST_TEMPO)
        return replace(other, **own, tempo=tempo)

    @property
    def refine_tags(self) -> str:
        """The control tags of the refine pass; empty for no levels."""
        levels = (("oral", self.oral), ("laugh", self.laugh), ("break", self.breaks))
        return "".join(f"[{name}_{level}]" for name, level in levels if level is not None)


class Join(Enum):
    """The kind of the join between a line and the next one, which chooses the pause."""

    NONE = "none"
    PHRASE = "phrase"
    SENTENCE = "sentence"
    LINE = "line"
    PARAGRAPH = "paragraph"
    CHAPTER = "chapter"


@dataclass(frozen=True)
class Line:
    """A part of a script that one voice speaks.

    Attributes:
        text: as written; ``[pause:1.5s]`` in it is silence, ``[voice:anna]`` another voice. Empty
            for silence alone.
        voice: a role or voice; ``None`` is the caller's default.
        pause: seconds of silence after the line; ``None`` takes that of ``join``.
        is_exact: whether the pause is all that is silent there, as that of a break.
        style: the manner of speaking.
        chapter: number of the chapter in ``Script.chapters``.
        join: the kind of the join to the next line.
        at: seconds from the beginning at which the line begins; ``None`` follows the line before.
        room: seconds that the line may last, by a faster tempo; ``None`` is no bound.
        shown: seconds for which a cue is shown; ``None`` for other lines.
        duration: seconds that its speech shall take; ``None`` for as long as it takes.
        marks: names of marks at its beginning.
        place: its place in the source.
    """

    text: str
    voice: str | None = None
    pause: float | None = None
    style: Style = Style()
    chapter: int = 0
    join: Join = Join.LINE
    at: float | None = None
    room: float | None = None
    shown: float | None = None
    duration: float | None = None
    marks: tuple[str, ...] = ()
    place: Place = Place("script")
    is_exact: bool = False

    def __post_init__(self) -> None:
        if self.pause is not None and not 0 <= self.pause <= LONGEST_PAUSE:
            raise self.place.error(
                f"a pause must be from 0 to {LONGEST_PAUSE:g} s, not {shown(self.pause)}"
            )
        if self.duration is not None and not 0 < self.duration <= LONGEST_DURATION:
            raise self.place.error(
                f"a duration must be above 0 and at most {LONGEST_DURATION:g} s, not "
                f"{shown(self.duration)}"
            )


def check_count(lines: int, place: Place) -> None:
    """Raise ScriptError if a script has more lines than any book."""
    if lines > MOST_LINES:
        raise place.error(f"the script has more than {MOST_LINES} lines")


@dataclass(frozen=True)
class Script:
    """Lines in order, and what is known of the work.

    Attributes:
        lines: those that are spoken.
        chapters: titles; a line names one of them by its number.
        title, author: of the work; empty if unknown.
        cover: a JPEG or PNG file.
        warnings: what the reader left out, each with its place.
    """

    lines: tuple[Line, ...]
    chapters: tuple[str, ...] = ("",)
    title: str = ""
    author: str = ""
    cover: bytes | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for line in self.lines:
            if not 0 <= line.chapter < len(self.chapters):
                raise line.place.error(f"there is no chapter number {line.chapter}")

    def check_strict(self) -> None:
        """Raise ScriptError for the first warning."""
        if self.warnings:
            found = _PLACED.match(self.warnings[0])
            place = None if found is None else Place(found[1], int(found[2]))
            raise ScriptError(self.warnings[0], place)

    def between(self, first: str | None = None, last: str | None = None) -> Script:
        """Return the script from one chapter to another one, both included.

        Args:
            first, last: a chapter's number, from 1, or its title.

        Raises:
            ScriptError: there is no such chapter, or the last one comes before the first one.
        """
        low = 0 if first is None else self._chapter(first)
        high = len(self.chapters) - 1 if last is None else self._chapter(last)
        if low > high:
            raise ScriptError(f"the chapter {shown(last)} comes before {shown(first)}")
        lines = (
            replace(line, chapter=line.chapter - low)
            for line in self.lines
            if low <= line.chapter <= high
        )
        return replace(self, lines=tuple(lines), chapters=self.chapters[low : high + 1])

    def _chapter(self, name: str) -> int:
        if name in self.chapters:
            return self.chapters.index(name)
        if name.isascii() and name.isdigit() and 1 <= int(name) <= len(self.chapters):
            return int(name) - 1
        titles = ", ".join(f"{n} {title}".strip() for n, title in enumerate(self.chapters, 1))
        raise ScriptError(f"there is no chapter {shown(name)}; the chapters are: {titles[:400]}")
