"""Marks in the text of a line: ``[pause:1.5s]`` and ``[voice:anna]``; and the cutting of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from .script import LONGEST_PAUSE, LONGEST_WORK, Join, Line, Place, Script, check_count

_MARK = re.compile(r"\[(pause|voice):([^\[\]]*)\]")
_SECONDS = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*(ms|s)")
_SENTENCE = re.compile(r"[^.!?…。！？]+[.!?…。！？]*[\"'”’)）」』]*\s*")
# Lines are generated side by side and kept whole, so their length bounds the memory.
_MOST_CHARACTERS = 1500


def seconds(text: str) -> float | None:
    """Return the seconds of ``1.5s`` or ``300ms``; ``None`` for anything else."""
    found = _SECONDS.fullmatch(text.strip())
    if found is None:
        return None
    value = float(found[1]) / (1000 if found[2] == "ms" else 1)
    return value if value <= LONGEST_PAUSE else None


def expanded(script: Script) -> Script:
    """Return the script with a line for each part between marks, and no line too long to keep.

    Expanding a script twice changes nothing.

    Raises:
        ScriptError: a mark cannot be read, or the script is longer than any book.
    """
    parts: list[Line] = []
    silence = 0.0
    for line in script.lines:
        for part in _parts(line):
            parts.append(part)
            silence += part.pause or 0.0
        check_count(len(parts), line.place)
        if silence > LONGEST_WORK:
            raise line.place.error("the pauses of the script are longer than a day")
    return replace(script, lines=tuple(parts))


def last_voice(text: str) -> str | None:
    """Return the voice of the last ``[voice:...]`` in a text."""
    names = [found[2].strip() for found in _MARK.finditer(text) if found[1] == "voice"]
    return names[-1] if names else None


def _parts(line: Line) -> Iterator[Line]:
    """Yield the parts of one line; the last one has its pause and join."""
    found: list[Line] = []
    voice, position = line.voice, 0

    def add(text: str) -> None:
        if text.strip():
            begins = not found
            found.append(
                replace(
                    line,
                    text=text.strip(),
                    voice=voice,
                    pause=None,
                    join=Join.SENTENCE,
                    at=line.at if begins else None,
                    room=None,
                    marks=line.marks if begins else (),
                )
            )

    for mark in _MARK.finditer(line.text):
        add(line.text[position : mark.start()])
        position = mark.end()
        if mark[1] == "voice":
            voice = _named(mark[2], line.place)
        else:
            _pause(found, line, _silence(mark, line.place))
    add(line.text[position:])
    if not found:
        if line.pause is not None or line.marks:
            yield replace(line, text="", join=Join.NONE, pause=line.pause or 0.0)
        return
    after = found[-1].pause if line.pause is None else (found[-1].pause or 0.0) + line.pause
    found[-1] = replace(found[-1], pause=after, join=line.join)
    if len(found) == 1:
        found[0] = replace(found[0], room=line.room)
    for part in found:
        yield from _cut(part)


def _pause(found: list[Line], line: Line, silence: float) -> None:
    """Add silence after the last part, or before the first one."""
    if found:
        found[-1] = replace(found[-1], pause=(found[-1].pause or 0.0) + silence)
    else:
        found.append(replace(line, text="", pause=silence, join=Join.NONE, room=None))


def _silence(mark: re.Match[str], place: Place) -> float:
    silence = seconds(mark[2])
    if silence is None:
        raise place.error(
            f"{mark[0]} is no pause: write [pause:1.5s] or [pause:300ms], at most "
            f"{LONGEST_PAUSE:g} s"
        )
    return silence


def _named(name: str, place: Place) -> str:
    if not name.strip():
        raise place.error("[voice:] names no voice")
    return name.strip()


def _cut(line: Line) -> Iterator[Line]:
    """Yield a long line in parts of whole sentences, or of words where a sentence is too long."""
    if len(line.text) <= _MOST_CHARACTERS:
        yield line
        return
    parts = [""]
    for sentence in _SENTENCE.findall(line.text) or [line.text]:
        for start in range(0, len(sentence), _MOST_CHARACTERS):
            piece = sentence[start : start + _MOST_CHARACTERS]
            if len(parts[-1]) + len(piece) > _MOST_CHARACTERS:
                parts.append("")
            parts[-1] += piece
    texts = [part.strip() for part in parts if part.strip()]
    for number, text in enumerate(texts):
        begins, ends = number == 0, number == len(texts) - 1
        yield replace(
            line,
            text=text,
            at=line.at if begins else None,
            room=None,
            marks=line.marks if begins else (),
            pause=line.pause if ends else None,
            join=line.join if ends else Join.SENTENCE,
        )
