"""Read a dialogue: ``Anna: ...`` or ``[voice:anna] ...``, a line for each speaker."""

from __future__ import annotations

import re

from .marks import last_voice
from .script import Join, Line, Place, Script

_NAMED = re.compile(r"([^\s:：\[\]#][^:：\[\]]{0,39})[:：](?!//)\s*(\S.*)")
_HEADING = re.compile(r"#{1,6}\s+(.*\S)")
_VOICE = re.compile(r"\[voice:[^\[\]]*\]")


def read_dialogue(text: str, name: str) -> Script:
    """Return the lines of a dialogue.

    A line without a name is spoken by the voice of the line before. ``# Title`` begins a chapter,
    and its title is not spoken.
    """
    lines: list[Line] = []
    chapters: list[str] = []
    voice = None
    for number, written in enumerate(text.splitlines(), 1):
        spoken = written.strip()
        heading = _HEADING.fullmatch(spoken)
        if heading is not None:
            if not chapters and lines:
                chapters.append("")
            chapters.append(heading[1])
            continue
        named = _NAMED.fullmatch(spoken)
        if named is not None:
            voice, spoken = named[1].strip(), named[2]
        if not spoken:
            continue
        chapter = max(0, len(chapters) - 1)
        place = Place(name, number)
        lines.append(Line(spoken, voice=voice, chapter=chapter, join=Join.LINE, place=place))
        voice = last_voice(spoken) or voice
    return Script(tuple(lines), tuple(chapters) or ("",))


def is_dialogue(text: str) -> bool:
    """Return whether every line that is not blank begins with a speaker's name or voice."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return bool(lines) and all(
        _NAMED.fullmatch(line) or _VOICE.match(line) or _HEADING.fullmatch(line) for line in lines
    )
