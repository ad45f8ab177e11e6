"""Read a subset of SSML 1.1.

It has speak, p, s, break, emphasis, sub, say-as, prosody (rate, duration), voice, mark and phoneme.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..errors import TextError
from ..text.emphasis import LEVELS, MODERATE, emphasised
from ..text.pauses import LONGEST_PAUSE, STRENGTHS, break_seconds, seconds, without_comma
from ..text.pronunciation.inline import Pronunciation
from .say_as import say_as
from .script import (
    FASTEST_TEMPO,
    SLOWEST_TEMPO,
    Join,
    Line,
    Place,
    Script,
    Style,
    check_count,
)
from .spaces import unwrapped
from .untrusted_xml import parse_xml, tag_of

if TYPE_CHECKING:
    from lxml.etree import _Element

_RATES = {"x-slow": 0.6, "slow": 0.8, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.6}
_PERCENT = re.compile(r"([+-]?)(\d{1,4}(?:\.\d{1,4})?)%")
_FACTOR = re.compile(r"\d{1,2}(?:\.\d{1,4})?")
_KNOWN = {
    "speak": {"version", "lang", "schemalocation", "base"},
    "p": {"lang"},
    "s": {"lang"},
    "break": {"time", "strength"},
    "emphasis": {"level"},
    "sub": {"alias"},
    "say-as": {"interpret-as", "format", "detail"},
    "prosody": {"rate", "duration"},
    "voice": {"name"},
    "mark": {"name"},
    "phoneme": {"alphabet", "ph"},
}
_MOST_DEPTH = 64
_ENDS = (Join.SENTENCE, Join.PARAGRAPH)  # of elements, the weaker one first
# Seconds between paragraphs inside of an element that has a duration.
_BETWEEN_PARAGRAPHS = 0.75


@dataclass(frozen=True)
class _Manner:
    """The voice, tempo and emphasis inside of an element; emphasis ends no line."""

    voice: str | None = None
    tempo: float = 1.0
    emphasis: str | None = field(default=None, compare=False)


def read_ssml(text: str, name: str) -> Script:
    """Return the lines of an SSML document.

    An unknown element gives a warning, and its text is spoken; an unknown attribute is left out
    with a warning.

    Raises:
        ScriptError: the text is no XML, has a document type, or a value that cannot be read.
    """
    root = parse_xml(text.lstrip("\ufeff \t\r\n").encode("utf-8"), name, doctype=False)
    reader = _Reader(name, before=text[: len(text) - len(text.lstrip())].count("\n"))
    if tag_of(root) != "speak":
        raise reader.place(root).error(f"SSML begins with <speak>, not <{tag_of(root)}>")
    reader.read(root, _Manner(), 0)
    reader.end(Join.PARAGRAPH)
    return Script(tuple(reader.lines), warnings=tuple(reader.warnings))


@dataclass
class _Reader:
    """The state of reading: finished lines, and the text of the unfinished one."""

    name: str
    before: int
    lines: list[Line] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    has_words: bool = False  # of the text; joining it at each piece takes the square of its time
    marks: list[str] = field(default_factory=list)
    manner: _Manner = _Manner()
    line: int = 0

    def place(self, element: _Element) -> Place:
        return Place(self.name, int(element.sourceline or 1) + self.before)

    def read(self, element: _Element, manner: _Manner, depth: int) -> None:
        """Read an element and all inside of it."""
        tag = tag_of(element)
        if depth > _MOST_DEPTH:
            raise self.place(element).error(f"elements are nested deeper than {_MOST_DEPTH}")
        if tag:
            self.check(element, tag)
            handler = _HANDLERS.get(tag)
            if handler is None:
                self.inside(element, manner, depth)
            else:
                handler(self, element, manner, depth)

    def inside(self, element: _Element, manner: _Manner, depth: int) -> None:
        self.say(element.text, element, manner)
        for child in element:
            self.read(child, manner, depth + 1)
            self.say(child.tail, child, manner)

    def check(self, element: _Element, tag: str) -> None:
        place = self.place(element)
        if tag not in _KNOWN:
            self.warnings.append(f"{place}: <{tag}> is not known; its text is spoken as it is")
            return
        names = [str(key).rpartition("}")[2] for key in element.attrib]
        unknown = [key for key in names if key.lower() not in _KNOWN[tag]]
        if unknown:
            self.warnings.append(f"{place}: {', '.join(unknown)} of <{tag}> has no effect")

    def say(self, text: str | None, element: _Element, manner: _Manner) -> None:
        """Add text; a change of the voice or tempo ends the line."""
        if not text:
            return
        if not text.strip():
            self.text.append(text)
            return
        if manner != self.manner:
            self.end(Join.PHRASE)
            self.manner = manner
        if not self.has_words:
            self.line = self.place(element).line
        self.has_words = True
        self.text.append(text if manner.emphasis is None else emphasised(text, manner.emphasis))

    def end(self, join: Join) -> None:
        """End the line; without text, an earlier line gets the stronger join."""
        text = unwrapped("".join(self.text))
        self.text, self.has_words = [], False
        if text:
            check_count(len(self.lines) + 1, Place(self.name, self.line))
            self.lines.append(
                Line(
                    text,
                    voice=self.manner.voice,
                    style=Style(tempo=self.manner.tempo),
                    join=join,
                    marks=tuple(self.marks),
                    place=Place(self.name, self.line),
                )
            )
            self.marks = []
        elif self.lines and self.lines[-1].text and _is_stronger(join, self.lines[-1].join):
            self.lines[-1] = replace(self.lines[-1], join=join)

    # -- elements --------------------------------------------------------------------------

    def block(self, element: _Element, manner: _Manner, depth: int) -> None:
        self.end(Join.SENTENCE)
        self.inside(element, manner, depth)
        self.end(Join.PARAGRAPH if tag_of(element) == "p" else Join.SENTENCE)

    def pause(self, element: _Element, manner: _Manner, depth: int) -> None:
        """Read a break. A text in it, which only some vendors allow, is spoken after it."""
        self.add_silence(element)
        self.inside(element, manner, depth)

    def add_silence(self, element: _Element) -> None:
        silence = break_seconds(element.get("time"), element.get("strength"))
        if silence is None:
            raise self.place(element).error(
                f"<break> needs a time such as 500ms (at most {LONGEST_PAUSE:g} s) or a strength "
                f"({', '.join(STRENGTHS)})"
            )
        if not silence and self.has_words:
            self.text = [without_comma("".join(self.text)), " "]
            return
        self.end(Join.NONE)
        place = self.place(element)
        if self.lines and not self.marks:
            before = self.lines[-1]
            total = min(LONGEST_PAUSE, (before.pause or 0.0) + silence)
            self.lines[-1] = replace(before, pause=total, is_exact=True)
        else:
            marks = tuple(self.marks)
            self.lines.append(Line("", pause=silence, marks=marks, place=place, is_exact=True))
            self.marks = []

    def emphasise(self, element: _Element, manner: _Manner, depth: int) -> None:
        level = element.get("level", MODERATE).strip()
        if level not in LEVELS:
            raise self.place(element).error(f"<emphasis> has a level of {', '.join(LEVELS)}")
        self.inside(element, replace(manner, emphasis=level), depth)

    def substitute(self, element: _Element, manner: _Manner, depth: int) -> None:
        alias = element.get("alias")
        if alias is None:
            raise self.place(element).error("<sub> needs an alias")
        self.say(alias, element, manner)

    def interpret(self, element: _Element, manner: _Manner, depth: int) -> None:
        written = unwrapped("".join(str(part) for part in element.itertext()))
        kind = element.get("interpret-as", "")
        spoken = say_as(written, kind, element.get("format", ""))
        if spoken is None:
            place = self.place(element)
            self.warnings.append(
                f"{place}: {written!r} cannot be read as {kind!r}; it is spoken as it is"
            )
        self.say(spoken or written, element, manner)

    def prosody(self, element: _Element, manner: _Manner, depth: int) -> None:
        rate = element.get("rate")
        if rate is not None:
            factor = _rate(rate.strip())
            if factor is None:
                raise self.place(element).error(
                    f"the rate {rate!r} is none: write 120%, +20% or {', '.join(_RATES)}"
                )
            tempo = min(max(manner.tempo * factor, SLOWEST_TEMPO), FASTEST_TEMPO)
            manner = replace(manner, tempo=tempo)
        if element.get("duration") is not None:
            self.timed(element, manner, depth)
        else:
            self.inside(element, manner, depth)

    def timed(self, element: _Element, manner: _Manner, depth: int) -> None:
        """Read an element whose speech has a duration, as one line; the rate has no effect."""
        place, given = self.place(element), element.get("duration") or ""
        duration = seconds(given)
        if not duration:
            raise place.error(f"the duration {given!r} is none: write 3.2s or 3200ms")
        self.end(Join.PHRASE)
        first = len(self.lines)
        self.inside(element, manner, depth)
        self.end(Join.PHRASE)
        inner, self.lines = self.lines[first:], self.lines[:first]
        if any(line.duration for line in inner) or any(line.marks for line in inner[1:]):
            raise place.error("<prosody duration> holds no mark and no other duration")
        if len({line.voice for line in inner if line.text}) > 1:
            raise place.error("<prosody duration> is spoken by one voice: write one for each")
        if inner:
            self.lines.append(_joined(inner, duration))

    def voice(self, element: _Element, manner: _Manner, depth: int) -> None:
        name = (element.get("name") or "").strip()
        if not name:
            raise self.place(element).error("<voice> needs a name")
        self.inside(element, replace(manner, voice=name), depth)

    def mark(self, element: _Element, manner: _Manner, depth: int) -> None:
        name = element.get("name")
        if not name:
            raise self.place(element).error("<mark> needs a name")
        self.end(Join.NONE)
        self.marks.append(name)
        self.inside(element, manner, depth)

    def phoneme(self, element: _Element, manner: _Manner, depth: int) -> None:
        written = unwrapped("".join(str(part) for part in element.itertext()))
        symbols, alphabet = element.get("ph") or "", element.get("alphabet") or "ipa"
        if alphabet == "x-respelling":
            self.say(symbols, element, manner)
            return
        try:
            spoken = Pronunciation(alphabet.lower(), symbols, written).mark
        except TextError as error:
            self.warnings.append(f"{self.place(element)}: {error}; the word is spoken as it is")
            spoken = written
        self.say(spoken, element, manner)


def _is_stronger(join: Join, earlier: Join) -> bool:
    return join in _ENDS and (earlier not in _ENDS or _ENDS.index(join) > _ENDS.index(earlier))


def _joined(lines: Sequence[Line], duration: float) -> Line:
    """Return lines as one that is spoken in a duration, with their pauses in its text."""
    parts = []
    for number, line in enumerate(lines):
        parts.append(line.text)
        pause = line.pause
        if pause is None and line.join is Join.PARAGRAPH and number + 1 < len(lines):
            pause = _BETWEEN_PARAGRAPHS
        if pause:
            parts.append(f"[pause:{round(1000 * pause)}ms]")
    spoken = next((line for line in lines if line.text), lines[0])
    text = " ".join(filter(None, parts))
    return replace(
        spoken,
        text=text,
        pause=None,
        is_exact=False,
        style=Style(),
        join=Join.PHRASE,
        marks=lines[0].marks,
        duration=duration,
    )


_HANDLERS: Mapping[str, Callable[[_Reader, _Element, _Manner, int], None]] = {
    "p": _Reader.block,
    "s": _Reader.block,
    "break": _Reader.pause,
    "emphasis": _Reader.emphasise,
    "sub": _Reader.substitute,
    "say-as": _Reader.interpret,
    "prosody": _Reader.prosody,
    "voice": _Reader.voice,
    "mark": _Reader.mark,
    "phoneme": _Reader.phoneme,
}


def _rate(text: str) -> float | None:
    """Return the factor of a rate: ``fast``, ``120%``, ``+20%`` or ``1.2``."""
    if text in _RATES:
        return _RATES[text]
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        value = float(percent[2]) / 100
        value = {"": value, "+": 1 + value, "-": 1 - value}[percent[1]]
    elif _FACTOR.fullmatch(text):
        value = float(text)
    else:
        return None
    return value if value > 0 else None
