"""The expected length of a script's speech, before any of it is spoken."""

from __future__ import annotations

import re

from ..text.emphasis import without_emphasis
from .script import Line, Script
from .settings import ReadSettings, Role

_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_SENTENCE = re.compile(r"[.!?…。！？][\"'”’)）」』\]]{0,3}\s*(?=\S)")
# Measured with the bundled voice; silence at the ends of utterances is cut.
_PER_LETTER, _PER_HAN, _PER_DIGIT = 0.064, 0.207, 0.3


def expected_seconds(script: Script, settings: ReadSettings) -> list[float]:
    """Return the seconds that each line is expected to last, with the silence after it.

    Voices differ by a fifth. A line of subtitles begins at its time, so there the lines before it
    have the silence up to that time.
    """
    lines = script.lines
    seconds: list[float] = []
    position = 0.0
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else None
        before = max(0.0, (line.at or 0.0) - position)
        own = before + _spoken(line, settings) + _silence(line, following, settings)
        position += own
        seconds.append(own)
    return seconds


def _spoken(line: Line, settings: ReadSettings) -> float:
    if line.duration is not None:
        return line.duration
    text = without_emphasis(line.text)
    han = len(_HAN.findall(text))
    speech = (
        (len(_LETTER.findall(text)) - han) * _PER_LETTER
        + han * _PER_HAN
        + len(_DIGIT.findall(text)) * _PER_DIGIT
    )
    name = settings.voice if line.voice is None else line.voice
    role = Role() if name is None else settings.voices.get(name, Role(name))
    tempo = line.style.over(role.style).tempo
    silence = len(_SENTENCE.findall(text)) * settings.pauses.sentence
    spoken = speech / tempo + silence
    return spoken if line.room is None else min(spoken, max(line.room, spoken / settings.fastest))


def _silence(line: Line, following: Line | None, settings: ReadSettings) -> float:
    if line.pause is not None:
        return line.pause
    if following is None or following.at is not None:
        return 0.0
    if following.chapter != line.chapter:
        return settings.pauses.chapter
    return settings.pauses.after(line.join)
