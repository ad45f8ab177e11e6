"""Marks in the text of a line, and the cutting of lines.

They are ``[pause:1.5s]``, ``[voice:anna]`` and, as in SSML, ``<break time="1.5s"/>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ..errors import TextError
from ..text.pauses import LONGEST_PAUSE, MARK, pause_seconds, seconds, without_empty_breaks
from .script import LONGEST_WORK, Join, Line, Place, Script, check_count

_MARK = re.compile(rf"{MARK.pattern}|\[voice:(?P<voice>[^\[\]]*)\]")
# Stops within brackets end no sentence.
_SENTENCE = re.compile(r"(?:\[[^\[\]]*\]|[^.!?…。！？])+[.!?…。！？]*[\"'”’)）」』]*\s*")
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
    found = (mark["voice"] for mark in _MARK.finditer(text))
    names = [name.strip() for name in found if name is not None]
    return names[-1] if names else None


def _timed(line: Line, most: int) -> Line:
    """Return a line that has a duration, with its voice; it is spoken as one, pauses and all.

    Raises:
        ScriptError: it has several voices, or is too long to be spoken as one.
    """
    whole = _without_empty_breaks(line)
    voices, parts, position = {line.voice}, [], 0
    for mark in _MARK.finditer(whole):
        if mark["voice"] is not None:
            parts.append(whole[position : mark.start()])
            position = mark.end()
            name = _named(mark["voice"], line.place)
            voices = {*voices, name} if "".join(parts).strip() else {name}
        elif mark["break"] is None:
            _silence(mark, line.place)
    text = "".join([*parts, whole[position:]]).strip()
    if len(voices) > 1 or len(text) > most:
        raise line.place.error(
            f"what has a duration is spoken by one voice and has at most {most} characters: "
            "divide it"
        )
    return replace(line, text=text, voice=next(iter(voices)))


def _without_empty_breaks(line: Line) -> str:
    """Return the text of a line without empty breaks.

    Raises:
        ScriptError: a break cannot be read.
    """
    try:
        return without_empty_breaks(line.text)
    except TextError as error:
        raise line.place.error(str(error)) from error


def _parts(line: Line) -> Iterator[Line]:
    """Yield the parts of one line; the last one has its pause and join."""
    found: list[Line] = []
    voice, position = line.voice, 0
    text = _without_empty_breaks(line)

    def add(text: str) -> None:
        if text.strip():
            begins = not found
            found.append(
                replace(
                    line,
                    text=text.strip(),
                    voice=voice,
                    pause=None,
                    is_exact=False,
                    join=Join.SENTENCE,
                    at=line.at if begins else None,
                    room=None,
                    marks=line.marks if begins else (),
                )
            )

    for mark in _MARK.finditer(text):
        add(text[position : mark.start()])
        position = mark.end()
        if mark["voice"] is not None:
            voice = _named(mark["voice"], line.place)
        elif mark["break"] is not None:
            _pause(found, line, pause_seconds(mark), is_exact=True)
        else:
            _pause(found, line, _silence(mark, line.place), is_exact=False)
    add(text[position:])
    if not found:
        if line.pause is not None or line.marks:
            yield replace(line, text="", join=Join.NONE, pause=line.pause or 0.0)
        return
    after = found[-1].pause if line.pause is None else (found[-1].pause or 0.0) + line.pause
    is_exact = found[-1].is_exact or line.is_exact
    found[-1] = replace(found[-1], pause=after, join=line.join, is_exact=is_exact)
    if len(found) == 1:
        found[0] = replace(found[0], room=line.room)
    yield from found


def _pause(found: list[Line], line: Line, silence: float, *, is_exact: bool) -> None:
    """Add silence after the last part, or before the first one."""
    if found:
        last = found[-1]
        is_exact |= last.is_exact
        found[-1] = replace(last, pause=(last.pause or 0.0) + silence, is_exact=is_exact)
    else:
        silent = replace(line, text="", pause=silence, join=Join.NONE, room=None)
        found.append(replace(silent, is_exact=is_exact))


def _silence(mark: re.Match[str], place: Place) -> float:
    silence = seconds(mark["pause"])
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
            is_exact=line.is_exact and ends,
            join=line.join if ends else Join.SENTENCE,
        )
