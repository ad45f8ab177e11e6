"""Choose the reader of a file by its ending, or by the caller's word."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Mapping
from pathlib import Path

from ..utils.untrusted import read_bytes
from .dialogue import is_dialogue, read_dialogue
from .epub import read_epub
from .json_lines import read_json_lines
from .markdown import read_markdown
from .marks import expanded
from .notes import Notes, check_notes
from .plain import read_plain
from .script import Place, Script, ScriptError
from .ssml import read_ssml
from .subtitles import read_subtitles

# A long novel has 4 MB of text.
_MOST_BYTES = 16 << 20
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_READERS: Mapping[str, Callable[[str, str], Script]] = {
    "dialogue": read_dialogue,
    "cues": read_subtitles,
    "ssml": read_ssml,
    "lines": read_json_lines,
}
_NOTED_READERS: Mapping[str, Callable[[str, str, Notes], Script]] = {
    "plain": read_plain,
    "markdown": read_markdown,
}
SCRIPT_FORMATS = (*_NOTED_READERS, *_READERS, "epub")
"""Names of the formats that :func:`read_script` reads."""

_ENDINGS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".srt": "cues",
    ".vtt": "cues",
    ".ass": "cues",
    ".ssa": "cues",
    ".ssml": "ssml",
    ".xml": "ssml",
    ".jsonl": "lines",
    ".epub": "epub",
}


def read_script(path: str | Path, format: str | None = None, notes: str = "skip") -> Script:
    """Read a script from a file.

    Args:
        path: UTF-8 text, or an EPUB.
        format: one of ``SCRIPT_FORMATS``; by default the ending chooses it. A text file whose lines
            all begin with a name and a colon is a dialogue, any other one plain text.
        notes: where the footnotes and endnotes of EPUB, Markdown and plain text are spoken:
            ``skip``, ``end`` (of their chapter) or ``inline`` (after the sentence).

    Raises:
        ScriptError: the file cannot be read; the message names the file and the line.
        ConfigError: ``notes`` is none of these.
    """
    source = Path(path)
    kind = format or format_of(source.name)
    if kind == "epub":
        return _checked(read_epub(source, str(source), notes=check_notes(notes)), str(source))
    try:
        data = read_bytes(source, _MOST_BYTES)
    except OSError as error:
        raise ScriptError(f"{source} cannot be read: {error.strerror or error}") from error
    return read_script_bytes(data, str(source), kind, notes=notes)


def read_script_bytes(
    data: bytes,
    name: str,
    format: str | None = None,
    most: int | None = None,
    notes: str = "skip",
) -> Script:
    """Return the script of a file's bytes; no file is opened.

    Args:
        name: of the file, for messages.
        format: as in :func:`read_script`.
        most: bytes of all files of an EPUB that are read.
        notes: as in :func:`read_script`.

    Raises:
        ScriptError, ConfigError: as :func:`read_script`.
    """
    kind = format or format_of(name)
    if kind == "epub":
        return _checked(read_epub(io.BytesIO(data), name, most, check_notes(notes)), name)
    try:
        text = data.decode("utf-16" if data.startswith(_UTF16) else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Place(name, line).error(
            "it is not UTF-8 text; convert it, for example by: iconv -f WINDOWS-1252 -t UTF-8"
        ) from error
    return _checked(parse_script(text, name, kind, notes), name)


def format_of(name: str) -> str | None:
    """Return the format that a file's name asks for by its ending; ``None`` if by none."""
    return _ENDINGS.get(Path(name).suffix.lower())


def parse_script(
    text: str, name: str = "script", format: str | None = None, notes: str = "skip"
) -> Script:
    """Return the script of a text; ``<speak`` at its beginning is SSML by default.

    Args:
        notes: as in :func:`read_script`.

    Raises:
        ScriptError: the text is damaged, or the format unknown.
        ConfigError: there is no such place for notes.
    """
    where = check_notes(notes)
    if format is None:
        if text.lstrip().startswith("<speak"):
            format = "ssml"
        else:
            format = "dialogue" if is_dialogue(text) else "plain"
    if format in _NOTED_READERS:
        return expanded(_NOTED_READERS[format](text, name, where))
    if format not in _READERS:
        known = ", ".join((*_NOTED_READERS, *_READERS))
        raise ScriptError(f"{name}: unknown format {format!r}; use {known}")
    return expanded(_READERS[format](text, name))


def _checked(script: Script, name: str) -> Script:
    script = expanded(script)
    if not any(line.text for line in script.lines):
        raise ScriptError(f"{name}: there is nothing to speak in it")
    return script
