"""Read JSON lines: an object for each line of the script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import ConfigError, shown
from ..utils.untrusted import parse_json
from .script import Join, Line, Place, Script, Style

_FIELDS = ("text", "voice", "pause", "style", "chapter")


def read_json_lines(text: str, name: str) -> Script:
    """Return the lines of a text with a JSON object in each of its lines.

    Raises:
        ScriptError: a line is no such object; see :func:`script_of_objects`.
    """
    objects: list[tuple[Any, Place]] = []
    for number, written in enumerate(text.split("\n"), 1):
        if not written.strip():
            continue
        place = Place(name, number)
        try:
            objects.append((parse_json(written), place))
        except ValueError as error:
            raise place.error(f"it is not valid JSON ({error})") from error
    return _script(objects)


def script_of_objects(objects: Iterable[Any], name: str) -> Script:
    """Return the script of objects; the first one stands at line 1.

    An object has ``text`` (it may be left out where ``pause`` is given), and may have ``voice``,
    ``pause`` in seconds, ``style`` with the fields of :class:`.script.Style`, and ``chapter``, the
    title of a chapter that begins with it.

    Raises:
        ScriptError: an object has other fields, or a value that cannot be used.
    """
    return _script((given, Place(name, number)) for number, given in enumerate(objects, 1))


def _script(objects: Iterable[tuple[Any, Place]]) -> Script:
    lines: list[Line] = []
    chapters: list[str] = []
    for given, place in objects:
        if not isinstance(given, Mapping):
            raise place.error(f"a line is an object with a text, not {shown(given)}")
        unknown = sorted(set(given) - set(_FIELDS))
        if unknown:
            raise place.error(f"a line has {', '.join(_FIELDS)}, but no {shown(unknown[0])}")
        title = _text(given, "chapter", place)
        if title is not None:
            if not chapters and lines:
                chapters.append("")
            chapters.append(title)
        lines.append(_line(given, max(0, len(chapters) - 1), place))
    return Script(tuple(lines), tuple(chapters) or ("",))


def _line(given: Mapping[str, Any], chapter: int, place: Place) -> Line:
    text, pause = _text(given, "text", place), given.get("pause")
    if text is None and pause is None:
        raise place.error("a line needs a text or a pause")
    if pause is not None and (isinstance(pause, bool) or not isinstance(pause, int | float)):
        raise place.error(f"a pause is a number of seconds, not {shown(pause)}")
    style = given.get("style")
    if style is not None and not isinstance(style, Mapping):
        raise place.error(f"a style is an object such as {{'speed': 4}}, not {shown(style)}")
    try:
        manner = Style.from_values(style or {})
    except ConfigError as error:
        raise place.error(str(error)) from error
    return Line(
        text or "",
        voice=_text(given, "voice", place),
        pause=pause,
        style=manner,
        chapter=chapter,
        join=Join.LINE,
        place=place,
    )


def _text(given: Mapping[str, Any], field: str, place: Place) -> str | None:
    value = given.get(field)
    if value is not None and not isinstance(value, str):
        raise place.error(f"the {field} of a line is text, not {shown(value)}")
    try:
        (value or "").encode("utf-8")
    except UnicodeEncodeError as error:
        raise place.error(f"the {field} contains an unpaired surrogate") from error
    return value
