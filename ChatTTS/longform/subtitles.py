"""Read SRT, WebVTT and ASS: each cue is a line at its time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..config.request_fields import LONGEST_DURATION
from ..text.pauses import MARK
from .script import LONGEST_WORK, Join, Line, Place, Script, ScriptError
from .spaces import unwrapped

_TIMING = re.compile(
    r"^[ \t]{0,9}(?:\d{1,9}:)?\d{1,9}:\d{1,9}[.,]\d{1,9}[ \t]{0,9}-->", re.MULTILINE
)
_INNER_TIME = re.compile(r"<(?:\d{1,9}:)?\d{1,9}:\d{1,9}\.\d{1,9}>")
_EVENT = re.compile(r"^[ \t]{0,9}(?:Dialogue|Comment):", re.MULTILINE)
_BEGINNING = 1000
_VOICE = re.compile(r"<v(?:\.[\w.-]{0,200})?\s{1,9}([^<>]{1,200})>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|\{\\[^{}]*\}")


@dataclass(frozen=True)
class _Cue:
    """A cue; its times are in milliseconds."""

    start: int
    end: int
    text: str
    name: str
    place: Place


def read_subtitles(text: str, name: str) -> Script:
    """Return a line for each cue, which begins at its time and ends before the next cue.

    ``<v Anna>`` of WebVTT and the name of a line of ASS are the voice. Comments and drawings of ASS
    are left out. Captions that YouTube makes show each line twice while they roll; it is spoken
    once.

    Raises:
        ScriptError: the file is damaged, or a cue begins before the end of the cue before it.
    """
    try:
        import pysubs2
    except ImportError as error:
        raise ScriptError(
            f"{name}: subtitles need pysubs2: pip install 'chattts-velocity[longform]'"
        ) from error
    text = text.lstrip("\ufeff")
    kind = _kind(text)
    rolls = kind == "vtt" and _INNER_TIME.search(text) is not None
    if kind == "vtt":
        text = _INNER_TIME.sub("", text)
    try:
        events = list(pysubs2.SSAFile.from_string(text, kind, keep_unknown_html_tags=True).events)
    except (pysubs2.exceptions.Pysubs2Error, ValueError, KeyError, IndexError) as error:
        raise ScriptError(f"{name}: no subtitles can be read in it ({error})") from error
    starts, number, counted = [], 1, 0
    for found in (_EVENT if kind == "ass" else _TIMING).finditer(text):
        number += text.count("\n", counted, found.start())
        counted = found.start()
        starts.append(number)
    if len(starts) != len(events):
        where = f"{len(starts)} times, {len(events)} cues"
        raise ScriptError(f"{name}: the subtitles are damaged ({where})")
    cues = [
        _Cue(
            event.start,
            event.end,
            event.text.replace("\\N", "\n").replace("\\n", "\n").replace("\\h", " "),
            event.name if kind == "ass" else "",
            Place(name, line),
        )
        for event, line in zip(events, starts, strict=True)
        if not event.is_comment and not (kind == "ass" and event.is_drawing)
    ]
    cues.sort(key=lambda cue: cue.start)
    return _script(_unrolled(cues) if rolls else cues)


def with_durations(script: Script) -> Script:
    """Return the script with the time for which each cue is shown as the duration of its speech.

    A cue that marks have divided becomes one line again.
    """
    lines: list[Line] = []
    cue: list[Line] = []
    for line in script.lines:
        if cue and (line.shown is None or line.at is not None):
            lines.append(_whole(cue))
            cue = []
        if line.shown is None or line.duration is not None:
            lines.append(line)
        else:
            cue.append(line)
    return replace(script, lines=(*lines, *([_whole(cue)] if cue else [])))


def _whole(parts: Sequence[Line]) -> Line:
    """Return the parts of a cue as one line that has a duration."""
    first = parts[0]
    assert first.shown is not None
    texts: list[str] = []
    voice = first.voice
    for part in parts:
        if part.voice != voice and part.text:
            texts.append(f"[voice:{part.voice}]")
            voice = part.voice
        texts.append(part.text)
        if part.pause:
            length = f"{round(1000 * part.pause)}ms"
            texts.append(f'<break time="{length}"/>' if part.is_exact else f"[pause:{length}]")
    return replace(
        first,
        text=" ".join(filter(None, texts)),
        duration=min(first.shown, LONGEST_DURATION),
        pause=0.0,
        is_exact=False,
        join=parts[-1].join,
    )


def _kind(text: str) -> str:
    beginning = text[:_BEGINNING].lstrip()
    if beginning.startswith("WEBVTT"):
        return "vtt"
    return "ass" if beginning.startswith(("[Script Info]", "[Events]", "[V4")) else "srt"


def _unrolled(cues: list[_Cue]) -> list[_Cue]:
    """Return cues without the lines that the cue before shows already."""
    kept: list[_Cue] = []
    before: list[str] = []
    for cue in cues:
        lines = [line for line in (_plain(part) for part in cue.text.split("\n")) if line]
        new = lines
        if before and lines[:1] == before[-1:]:
            new = lines[1:]
        elif lines == before:
            new = []
        if new:
            kept.append(replace(cue, text="\n".join(new)))
        before = lines or before
    return kept


def _plain(text: str) -> str:
    """Return a text without tags; a break of SSML stays, as in any text."""
    return unwrapped(_TAG.sub(lambda tag: tag[0] if MARK.fullmatch(tag[0]) else "", text))


def _script(cues: list[_Cue]) -> Script:
    lines: list[Line] = []
    end = 0
    for number, cue in enumerate(cues):
        if cue.end > 1000 * LONGEST_WORK:
            raise cue.place.error("the cue is later than a day after the beginning")
        if cue.end <= cue.start:
            raise cue.place.error("the cue ends before it begins")
        if cue.start < end:
            raise cue.place.error(
                f"the cue begins at {cue.start / 1000:g} s, before the end of the cue before it "
                f"({end / 1000:g} s)"
            )
        end = cue.end
        later = [other.start for other in cues[number + 1 : number + 2]]
        voice = _VOICE.search(cue.text)
        spoken = _plain(cue.text)
        if spoken:
            lines.append(
                Line(
                    spoken,
                    voice=voice[1].strip() if voice is not None else cue.name.strip() or None,
                    pause=0.0,
                    join=Join.NONE,
                    at=cue.start / 1000,
                    room=((later or [cue.end])[0] - cue.start) / 1000,
                    shown=(cue.end - cue.start) / 1000,
                    place=cue.place,
                )
            )
    return Script(tuple(lines))
