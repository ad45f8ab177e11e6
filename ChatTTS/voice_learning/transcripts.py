"""Sound files and their transcripts: a folder in one of two layouts, or one file and its text.

A folder has LJSpeech's ``metadata.csv``, or a ``NAME.txt`` beside each sound file. A path that
leads out of the folder is refused, whether a table or a link names it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import VoiceError, printable, shown
from ..utils.untrusted import read_bytes

METADATA = "metadata.csv"
"""The table of a folder in LJSpeech's layout: name, text and spoken text, separated by ``|``."""

ENDINGS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif")
"""Endings of the files that count as recordings."""

_MOST_TABLE = 32 << 20  # LJSpeech's own table has 3 MB for a day of speech
_MOST_FIELDS = 16  # of a line; LJSpeech has three
_MOST_TRANSCRIPT = 1 << 20
_MOST_FILES = 100_000
# LJSpeech keeps its sound files in the first of these.
_SOUND_FOLDERS = ("wavs", ".")
_REMEDY = (
    "write what is said in NAME.wav into NAME.txt beside it, or give a metadata.csv with lines "
    "such as `NAME|what is said`"
)


@dataclass(frozen=True)
class Transcribed:
    """A sound file and what is said in it.

    Attributes:
        name: the file's name within its folder, as it can be printed.
        path: of the file.
        text: its transcript; ``None`` where none was found.
    """

    name: str
    path: Path
    text: str | None


def find_transcribed(source: str | os.PathLike[str], text: str | None = None) -> list[Transcribed]:
    """Return the recordings of a folder or file, in the order of the table or of their names.

    Args:
        source: a folder, or one sound file.
        text: the transcript of that one file, which otherwise stands in ``NAME.txt`` beside it.

    Raises:
        VoiceError: there are no sound files, none has a transcript, or a table has a line that
            cannot be used; the message names it.
    """
    place = Path(source)
    try:
        return list(_found(place, text))
    except (OSError, RuntimeError) as error:  # a link that leads to itself is a RuntimeError
        reason = getattr(error, "strerror", None) or error
        raise VoiceError(f"{shown(str(place))} cannot be read: {reason}") from error


def _found(place: Path, text: str | None) -> list[Transcribed]:
    if place.is_dir():
        if text is not None:
            raise VoiceError(
                f"{place} is a folder, and one text cannot be the transcript of all: {_REMEDY}"
            )
        found = list(_listed(place) if (place / METADATA).is_file() else _beside(place))
        if not found:
            raise VoiceError(f"{place} has no sound files ({', '.join(ENDINGS)})")
        if all(each.text is None for each in found):
            raise VoiceError(f"{place} has {len(found)} sound files and no transcripts: {_REMEDY}")
        return found
    if not place.is_file():
        raise VoiceError(f"{place} is neither a folder of recordings nor a sound file")
    said = _transcript(place.with_suffix(".txt"), place.parent) if text is None else text.strip()
    if not said:
        raise VoiceError(f"{place} has no transcript: give its text, or {_REMEDY}")
    return [Transcribed(printable(place.name), place, said)]


def _beside(folder: Path) -> Iterator[Transcribed]:
    """Yield the sound files of a folder, with the text files beside them."""
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)
    if len(files) > _MOST_FILES:
        raise VoiceError(f"{folder} has {len(files)} sound files, more than {_MOST_FILES}")
    for path in files:
        name = printable(path.name)
        _check_inside(path, folder, name)
        yield Transcribed(name, path, _transcript(path.with_suffix(".txt"), folder))


def _transcript(file: Path, folder: Path) -> str | None:
    if not file.is_file():
        return None
    _check_inside(file, folder, printable(file.name))
    return _read_text(file, _MOST_TRANSCRIPT).strip() or None


def _listed(folder: Path) -> Iterator[Transcribed]:
    """Yield the recordings of ``metadata.csv``.

    A line is ``name|text`` or ``name|text|text as it is spoken``. There are no quotes.
    """
    table = folder / METADATA
    _check_inside(table, folder, METADATA)
    # Other marks that Unicode counts as ends of lines may be in a text.
    text = _read_text(table, _MOST_TABLE)
    count = text.count("\n") + 1  # a list of millions of lines takes many times the memory
    if count > _MOST_FILES:
        raise VoiceError(f"{table} has {count} lines, more than {_MOST_FILES}")
    lines = text.split("\n")
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{table}, line {number}"
        if line.count("|") >= _MOST_FIELDS:
            raise VoiceError(f"{where}: {shown(line)} has more than {_MOST_FIELDS} fields")
        name, *texts = (field.strip() for field in line.split("|"))
        if not texts or not name:
            raise VoiceError(f"{where}: {shown(line)} is not `name|text`")
        if name in seen:
            raise VoiceError(f"{where}: {shown(name)} appears twice")
        seen.add(name)
        path = _sound_file(folder, name, where)
        said = next((t for t in reversed(texts) if t), None)
        yield Transcribed(printable(name), path, said)


def _sound_file(folder: Path, name: str, where: str) -> Path:
    """Return the file that a table names, which lies in its folder."""
    if "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
        raise VoiceError(f"{where}: {shown(name)} leads out of the folder")
    endings = ("",) if Path(name).suffix.lower() in ENDINGS else ENDINGS
    for inner in _SOUND_FOLDERS:
        for ending in endings:
            path = folder / inner / f"{name}{ending}"
            try:
                exists = path.is_file()
            except OSError as error:  # a name that is too long
                raise VoiceError(f"{where}: {shown(name)} is not a file name ({error})") from error
            if exists:
                _check_inside(path, folder, where)
                return path
    raise VoiceError(
        f"{where}: there is no sound file {shown(name)} in {folder} or its folder "
        f"{_SOUND_FOLDERS[0]}"
    )


def _check_inside(path: Path, folder: Path, where: str) -> None:
    """Raise VoiceError if a path leads out of the folder, as a link may do."""
    if not path.resolve().is_relative_to(folder.resolve()):
        raise VoiceError(f"{where}: {path} leads out of the folder {folder}: copy the file there")


def _read_text(file: Path, most: int) -> str:
    try:
        return read_bytes(file, most).decode("utf-8-sig")
    except OSError as error:
        raise VoiceError(f"{file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise VoiceError(f"{file} is not UTF-8 text; save it as UTF-8") from error
