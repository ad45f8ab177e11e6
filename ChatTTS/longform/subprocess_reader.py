"""Read a stranger's script in a process of its own, with bounds on its memory and its time.

A reader holds Python's lock while it splits or searches megabytes, and a tree of XML takes many
times the memory of its text. In a process of its own neither harms what else runs.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..text.splitter import is_speakable
from .files import read_script_bytes
from .marks import expanded
from .script import Join, Line, Place, Script, ScriptError, Style
from .subtitles import with_durations

# Scripts of the allowed size stay far below these.
_MOST_MEMORY = 2 << 30
_MOST_SECONDS = 120  # of computing
_MOST_WARNINGS = 1000
_NICENESS = 10
# It imports what this process would import, and nothing from the folder where it is started.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from ChatTTS.longform.subprocess_reader import main; main()"
)
# A slow reader speaks so many seconds for a character of English. A Chinese one takes longer, but
# has fewer characters.
_SECONDS_PER_CHARACTER = 0.085
_SECONDS_PER_HAN = 0.35
# Lines are kept in memory with all that is planned for them, a kilobyte each. A dialogue may
# consist of "Yes." and "No.", or of a Chinese word in each line.
_CHARACTERS_PER_LINE, _FEW_LINES, _MANY_LINES = 2, 1000, 100_000


class ScriptTooLongError(ScriptError):
    """A script is longer than the reader's bounds."""


@dataclass(frozen=True)
class Reading:
    """The part of a script to read, and its bounds.

    Attributes:
        name: of the file, for messages.
        format: as :func:`.files.read_script` takes it.
        most: bytes of all files of an EPUB that are read.
        strict: whether a warning is an error.
        first, last: chapters; see :meth:`.script.Script.between`.
        line_characters: characters of a line.
        characters: of all lines.
        seconds: of the speech, as it is estimated.
        notes: where notes are spoken, as :func:`.files.read_script` takes it.
        fit: whether each cue shall take exactly the time for which it is shown.
    """

    name: str
    format: str | None
    most: int
    strict: bool
    first: str | None
    last: str | None
    line_characters: int
    characters: int
    seconds: float
    notes: str = "skip"
    fit: bool = False


def read_in_subprocess(data: bytes, reading: Reading) -> Script:
    """Return a script that another process reads; blocks the thread.

    Raises:
        ScriptTooLongError: it exceeds a bound, or takes too much memory or time to be read.
        ScriptError: it cannot be read, or has nothing to speak.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, json.dumps([os.path.abspath(p) for p in sys.path])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in a terminal is for the server
    ) as process:
        try:
            told, _ = process.communicate(json.dumps(asdict(reading)).encode() + b"\n" + data)
        except BaseException:
            process.kill()
            raise
    head, *lines = told.splitlines() or [b""]
    try:
        fields = json.loads(head)
    except ValueError:
        raise ScriptTooLongError(
            f"{reading.name}: reading it takes too much memory or time: send it in parts"
        ) from None
    if "error" in fields:
        place = fields["place"] and Place(*fields["place"])
        kind = ScriptTooLongError if fields["is_too_long"] else ScriptError
        raise kind(fields["error"], place)
    return Script(
        tuple(_line(json.loads(line)) for line in lines),
        tuple(fields["chapters"]),
        fields["title"],
        fields["author"],
        fields["cover"] and base64.b64decode(fields["cover"]),
        tuple(fields["warnings"]),
    )


def read_bounded(data: bytes, reading: Reading) -> Script:
    """Return a script; raises as :func:`read_in_subprocess`."""
    name = reading.name
    script = read_script_bytes(data, name, reading.format, reading.most, reading.notes)
    if reading.strict:
        script.check_strict()
    script = script.between(reading.first, reading.last)
    if reading.fit:
        script = with_durations(script)
    script = expanded(script, reading.line_characters)
    characters = sum(len(line.text) for line in script.lines)
    if characters > reading.characters:
        raise ScriptTooLongError(
            f"the script has {characters} characters; the limit is {reading.characters}: send it "
            "in parts, such as chapters"
        )
    most = most_lines(reading.characters)
    if len(script.lines) > most:
        raise ScriptTooLongError(
            f"the script has {len(script.lines)} lines; the limit is {most}: send it in parts, "
            "such as chapters"
        )
    seconds = estimated_seconds(script)
    if seconds > reading.seconds:
        raise ScriptTooLongError(
            f"the script would last about {seconds / 3600:.1f} hours with its pauses; the limit "
            f"is {reading.seconds / 3600:g}: send it in parts"
        )
    if not any(is_speakable(line.text) for line in script.lines):
        raise Place(name).error("there is nothing to speak in it")
    return script


def most_lines(characters: int) -> int:
    """Return how many lines a script of at most so many characters may have."""
    return max(_FEW_LINES, min(characters // _CHARACTERS_PER_LINE, _MANY_LINES))


def estimated_seconds(script: Script) -> float:
    """Return about how long the speech of a script will be, rather too long."""
    spoken = silent = at = 0.0
    for line in script.lines:
        han = sum("\u3400" <= c <= "\u9fff" for c in line.text)
        spoken += (len(line.text) - han) * _SECONDS_PER_CHARACTER + han * _SECONDS_PER_HAN
        silent += line.pause or 0.0
        at = max(at, line.at or 0.0)
    return max(spoken + silent, at)


# -- the other process ---------------------------------------------------------------------------


def main() -> None:
    """Read a script from standard input, and write it to standard output."""
    _bound_self()
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no part of the script
    reading = Reading(**json.loads(sys.stdin.buffer.readline()))
    try:
        parts = _told(read_bounded(sys.stdin.buffer.read(), reading))
    except ScriptError as error:
        place = error.place and [error.place.file, error.place.line]
        is_too_long = isinstance(error, ScriptTooLongError)
        parts = iter([{"error": str(error), "place": place, "is_too_long": is_too_long}])
    with told:
        for part in parts:
            told.write(json.dumps(part).encode() + b"\n")


def _bound_self() -> None:
    with suppress(ImportError, OSError, ValueError):  # Windows has no such bounds
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (_MOST_SECONDS, _MOST_SECONDS))
        os.nice(_NICENESS)


def _told(script: Script) -> Iterator[dict[str, Any]]:
    cover = script.cover and base64.b64encode(script.cover).decode("ascii")
    yield {
        "chapters": script.chapters,
        "title": script.title,
        "author": script.author,
        "cover": cover,
        "warnings": script.warnings[:_MOST_WARNINGS],
    }
    for line in script.lines:
        yield _non_default_fields(line) | {
            "join": line.join.value,
            "style": _non_default_fields(line.style),
            "place": [line.place.file, line.place.line],
        }


def _non_default_fields(value: Line | Style) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    pairs = ((field, getattr(value, field.name)) for field in fields(value))
    return {field.name: own for field, own in pairs if own != field.default}


def _line(told: dict[str, Any]) -> Line:
    own = {
        "join": Join(told["join"]),
        "style": Style(**told["style"]),
        "place": Place(*told["place"]),
        "marks": tuple(told.get("marks", ())),
    }
    return Line(**told | own)
