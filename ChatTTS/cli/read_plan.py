"""``chattts read --plan``: what would be spoken, chapter by chapter, with the minutes expected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .console import counted

if TYPE_CHECKING:
    from ..longform.script import Line, Script
    from ..longform.settings import ReadSettings


def plan_of(script: Script, settings: ReadSettings) -> Iterator[str]:
    """Yield the lines of the plan: the work, its chapters with their minutes, and their texts."""
    from ..longform.expected import expected_seconds

    seconds = expected_seconds(script, settings)
    chapters: dict[int, tuple[float, list[Line]]] = {}
    for line, own in zip(script.lines, seconds, strict=True):
        before, lines = chapters.get(line.chapter, (0.0, []))
        lines.append(line)
        chapters[line.chapter] = (before + own, lines)
    work = ", by ".join(name for name in (script.title, script.author) if name)
    yield (
        f"{work or 'the script'}: {counted(len(chapters), 'chapter')}, "
        f"{counted(len(script.lines), 'line')}, about {_time(sum(seconds))}"
    )
    heads = [
        f"{number}  {script.chapters[chapter] or '(no title)'}  "
        f"({_time(own)}, {counted(len(lines), 'line')})"
        for number, (chapter, (own, lines)) in enumerate(chapters.items(), 1)
    ]
    yield from ("", *heads)
    for head, (_, lines) in zip(heads, chapters.values(), strict=True):
        yield from ("", head)
        yield from map(_told, lines)


def _told(line: Line) -> str:
    """Return a line as it is spoken; its pause as a mark that scripts may have."""
    voice = f"[voice:{line.voice}] " if line.voice is not None else ""
    pause = f"[pause:{line.pause:g}s]" if line.pause else ""
    at = f"{line.at:.1f} s  " if line.at is not None else ""
    return f"   {at}{voice}{line.text}{' ' if line.text and pause else ''}{pause}"


def _time(seconds: float) -> str:
    """Return a duration for people: "1 h 5 min", "5 min", "40 s"."""
    minutes = round(seconds / 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if seconds >= 90 else f"{round(seconds)} s"
