"""Marks in the text of a line: ``[pause:1.5s]`` and ``[voice:anna]``; and the cutting of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ..text.pauses import LONGEST_PAUSE, seconds
from .script import LONGEST_WORK, Join, Line, Place, Script, check_count

_MARK = re.compile(r"\[(pause|voice):([^\[\]]*)\]")
_SENTENCE = re.compile(r"[^.!?…。！？]+[.!?…。！？]*[\"'”’)）」』]*\s*")
# Lines are generated side by side and kept whole, so their length bounds the memory.
MOST_CHARACTERS = 1500


def expanded(script: Script, most: int = MOST_CHARACTERS) -> Script:
    """Return the script with a line for each part between marks, and no line too long to keep.

    Expanding a script twice changes nothing.

    Args:
        most: characters of a line.

    Raises:
        ScriptError: a mark cannot be read, or the script is longer than any book.
    """
    parts: list[Line] = []
    silence = 0.0
    for line in script.lines:
        if line.duration is not None:
            parts.append(_timed(line, most))
            continue
        for part in _parts(line):
            parts.extend(_cut(part, most))
            silence += part.pause or 0.0
        check_count(len(parts), line.place)
        if silence > LONGEST_WORK:
            raise line.place.error("the pauses of the script are longer than a day")
    return replace(script, lines=tuple(parts))


def last_voice(text: str) -> str | None:
    """Return the voice of the last ``[voice:...]`` in a text."""
    names = [found[2].strip() for found in _MARK.finditer(text) if found[1] == "voice"]
    return names[-1] if names else None


def _timed(line: Line, most: int) -> Line:
    """Return a line that has a duration, with its voice; it is spoken as one, pauses and all.

    Raises:
        ScriptError: it has several voices, or is too long to be spoken as one.
    """
    voices, parts, position = {line.voice}, [], 0
    for mark in _MARK.finditer(line.text):
        if mark[1] == "voice":
            parts.append(line.text[position : mark.start()])
            position = mark.end()
            name = _named(mark[2], line.place)
            voices = {*voices, name} if "".join(parts).strip() else {name}
        else:
            _silence(mark, line.place)
    text = "".join([*parts, line.text[position:]]).strip()
    if len(voices) > 1 or len(text) > most:
        raise line.place.error(
            f"what has a duration is spoken by one voice and has at most {most} characters: "
            "divide it"
        )
    return replace(line, text=text, voice=next(iter(voices)))


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
    yield from found


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
            f"{mark[0]} is not a pause: write [pause:1.5s] or [pause:300ms], at most "
            f"{LONGEST_PAUSE:g} s"
        )
    return silence


def _named(name: str, place: Place) -> str:
    if not name.strip():
        raise place.error("[voice:] names no voice")
    return name.strip()


def _cut(line: Line, most: int) -> Iterator[Line]:
    """Yield a long line in parts of whole sentences, or of words where a sentence is too long."""
    if len(line.text) <= most:
        yield line
        return
    parts = [""]
    for sentence in _SENTENCE.findall(line.text) or [line.text]:
        for start in range(0, len(sentence), most):
            piece = sentence[start : start + most]
            if len(parts[-1]) + len(piece) > most:
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
