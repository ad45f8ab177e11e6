"""Read SRT and WebVTT: each cue is a line at its time."""

from __future__ import annotations

import re

from .script import LONGEST_WORK, Join, Line, Place, Script, ScriptError
from .spaces import unwrapped

_TIMING = re.compile(
    r"^[ \t]{0,9}(?:\d{1,9}:)?\d{1,9}:\d{1,9}[.,]\d{1,9}[ \t]{0,9}-->", re.MULTILINE
)
_VOICE = re.compile(r"<v(?:\.[\w.-]{0,200})?\s{1,9}([^<>]{1,200})>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|\{\\[^{}]*\}")


def read_cues(text: str, name: str) -> Script:
    """Return a line for each cue, which begins at its time and ends before the next cue.

    ``<v Anna>`` of WebVTT names the voice.

    Raises:
        ScriptError: the file is damaged, or a cue begins before the end of the cue before it.
    """
    try:
        import pysubs2
    except ImportError as error:
        raise ScriptError(
            f"{name}: subtitles need pysubs2: pip install 'chattts-velocity[longform]'"
        ) from error
    kind = "vtt" if text.lstrip("\ufeff").lstrip().startswith("WEBVTT") else "srt"
    try:
        events = list(pysubs2.SSAFile.from_string(text, kind, keep_unknown_html_tags=True).events)
    except (pysubs2.exceptions.Pysubs2Error, ValueError) as error:
        raise ScriptError(f"{name}: no subtitles can be read in it ({error})") from error
    starts, number, counted = [], 1, 0
    for found in _TIMING.finditer(text):
        number += text.count("\n", counted, found.start())
        counted = found.start()
        starts.append(number)
    if len(starts) != len(events):
        where = f"{len(starts)} times, {len(events)} cues"
        raise ScriptError(f"{name}: the subtitles are damaged ({where})")
    lines: list[Line] = []
    end = 0
    for number, (event, line) in enumerate(zip(events, starts, strict=True)):
        place = Place(name, line)
        if event.end > 1000 * LONGEST_WORK:
            raise place.error("the cue is later than a day after the beginning")
        if event.end <= event.start:
            raise place.error("the cue ends before it begins")
        if event.start < end:
            raise place.error(
                f"the cue begins at {event.start / 1000:g} s, before the end of the cue before it "
                f"({end / 1000:g} s)"
            )
        end = event.end
        later = [other.start for other in events[number + 1 : number + 2]]
        written = event.text.replace("\\N", "\n").replace("\\n", "\n")
        voice = _VOICE.search(written)
        spoken = unwrapped(_TAG.sub("", written))
        if spoken:
            lines.append(
                Line(
                    spoken,
                    voice=None if voice is None else voice[1].strip(),
                    pause=0.0,
                    join=Join.NONE,
                    at=event.start / 1000,
                    room=((later or [event.end])[0] - event.start) / 1000,
                    place=place,
                )
            )
    return Script(tuple(lines))
