"""Detect what a sound file says about how it came to be; the file may be anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.mark import SOURCE_TYPES
from ..errors import AudioError, printable
from ..utils.untrusted import LONGEST_FILE, open_regular, parse_json
from .samples import StrPath
from .tag_reading import Tag, read_tags

_LONGEST = 300  # characters of a value that is told
_SOURCE_TYPE = re.compile(
    re.escape(SOURCE_TYPES).replace("http:", "https?:") + r"([A-Za-z]{1,60})", re.ASCII
)
# The terms for what models made, as a whole or in part.
_SYNTHETIC = (
    "trainedAlgorithmicMedia",
    "compositeWithTrainedAlgorithmicMedia",
    "algorithmicMedia",
    "compositeSynthetic",
)
_LABEL, _CERTAIN = "AIGC", "1"
# Names of the tags in the formats; those of one kind in the order in which they are believed.
_SOFTWARE = ("SOFTWARE", "ISFT", "ENCODER", "TSSE", "\xa9too", "CreatorTool")
_DAY = ("ICRD", "DATE", "TDRC", "TDEN", "\xa9day", "CreateDate")


@dataclass(frozen=True)
class FoundMark:
    """The statements of a file's tags. Any program can write and remove them: they prove nothing.

    Attributes:
        format: of the file, such as ``WAV``; ``None`` for an unknown one.
        is_synthetic: whether the file says that its sound is synthetic.
        software, day: by what and when it was made, where it says so.
        source_type: IPTC's term.
        label: the fields of the label of GB 45438; empty without one.
        places: the kinds of tags that say that the sound is synthetic.
    """

    format: str | None
    is_synthetic: bool = False
    software: str | None = None
    day: str | None = None
    source_type: str | None = None
    label: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()


def find_mark(path: StrPath) -> FoundMark:
    """Return what the tags of a file say; of a file that is no sound, nothing.

    Raises:
        AudioError: the file cannot be read.
    """
    path = Path(path)
    try:
        with open_regular(path, LONGEST_FILE) as file:
            format, tags = read_tags(file)
    except FileNotFoundError:
        raise AudioError(f"{path} does not exist") from None
    except OSError as error:
        raise AudioError(f"{path} cannot be read: {error.strerror or error}") from error
    return _of(format, tags)


def says_synthetic(text: str) -> bool:
    """Return whether a text names a term of IPTC for what a model made, as a whole or in part."""
    return any(found[1] in _SYNTHETIC for found in _SOURCE_TYPE.finditer(text))


def _of(format: str | None, tags: Iterable[Tag]) -> FoundMark:
    places: dict[str, None] = {}
    source_type, label = None, dict[str, str]()
    values: dict[str, str] = {}
    for tag in tags:
        values.setdefault(tag.name.upper(), tag.value)
        if found := _SOURCE_TYPE.search(tag.value):
            is_synthetic = found[1] in _SYNTHETIC
            if source_type is None or is_synthetic:
                source_type = found[1]
            if is_synthetic:
                places[tag.place] = None
        if tag.name.upper() == _LABEL and (fields := _label(tag.value)):
            label = label or fields
            if fields.get("Label") == _CERTAIN:
                places[tag.place] = None
    return FoundMark(
        format,
        bool(places),
        _first(values, _SOFTWARE),
        _first(values, _DAY),
        source_type,
        label,
        tuple(places),
    )


def _first(values: Mapping[str, str], names: Iterable[str]) -> str | None:
    known = (values.get(name.upper(), "").strip() for name in names)
    return next((_told(value) for value in known if value), None)


def _told(value: str) -> str:
    return printable(value[:_LONGEST])


def _label(text: str) -> dict[str, str]:
    """Return the fields of a label that have a value; none of a text that is no label."""
    try:
        value: Any = parse_json(text)
    except ValueError:
        return {}
    if isinstance(value, dict) and isinstance(inner := value.get(_LABEL), dict):
        value = inner  # some writers repeat the name
    if not isinstance(value, dict):
        return {}
    return {
        _told(name): _told(each)
        for name, each in list(value.items())[:20]
        if isinstance(each, str) and each
    }
