"""Choose the reader of a file by its ending, or by the caller's word."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path

from ..utils.untrusted import read_bytes
from .cues import read_cues
from .dialogue import is_dialogue, read_dialogue
from .epub import read_epub
from .json_lines import read_json_lines
from .markdown import read_markdown
from .marks import expanded
from .plain import read_plain
from .script import Place, Script, ScriptError
from .ssml import read_ssml

# A long novel has 4 MB of text.
_MOST_BYTES = 16 << 20

_READERS: Mapping[str, Callable[[str, str], Script]] = {
    "plain": read_plain,
    "markdown": read_markdown,
    "dialogue": read_dialogue,
    "cues": read_cues,
    "ssml": read_ssml,
    "lines": read_json_lines,
}
SCRIPT_FORMATS = (*_READERS, "epub")
"""Names of the formats that :func:`read_script` reads."""

_ENDINGS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".srt": "cues",
    ".vtt": "cues",
    ".ssml": "ssml",
    ".xml": "ssml",
    ".jsonl": "lines",
    ".epub": "epub",
}


def read_script(path: str | Path, format: str | None = None) -> Script:
    """Read a script from a file.

    Args:
        path: UTF-8 text, or an EPUB.
        format: one of ``SCRIPT_FORMATS``; by default the ending chooses it. A text file whose lines
            all begin with a name and a colon is a dialogue, any other one plain text.

    Raises:
        ScriptError: the file cannot be read; the message names the file and the line.
    """
    source = Path(path)
    kind = format or format_of(source.name)
    if kind == "epub":
        return _checked(read_epub(source, str(source)), str(source))
    try:
        data = read_bytes(source, _MOST_BYTES)
    except OSError as error:
        raise ScriptError(f"{source} cannot be read: {error.strerror or error}") from error
    return read_script_bytes(data, str(source), kind)


def read_script_bytes(
    data: bytes, name: str, format: str | None = None, most: int | None = None
) -> Script:
    """Return the script of a file's bytes; no file is opened.

    Args:
        name: of the file, for messages.
        format: as in :func:`read_script`.
        most: bytes of all files of an EPUB that are read.

    Raises:
        ScriptError: as :func:`read_script`.
    """
    kind = format or format_of(name)
    if kind == "epub":
        return _checked(read_epub(io.BytesIO(data), name, most), name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Place(name, line).error("it is not UTF-8 text") from error
    return _checked(parse_script(text, name, kind), name)


def format_of(name: str) -> str | None:
    """Return the format that a file's name asks for by its ending; ``None`` if by none."""
    return _ENDINGS.get(Path(name).suffix.lower())


def parse_script(text: str, name: str = "script", format: str | None = None) -> Script:
    """Return the script of a text; ``<speak`` at its beginning is SSML by default.

    Raises:
        ScriptError: the text is damaged, or the format unknown.
    """
    if format is None:
        if text.lstrip().startswith("<speak"):
            format = "ssml"
        else:
            format = "dialogue" if is_dialogue(text) else "plain"
    if format not in _READERS:
        raise ScriptError(f"{name}: there is no format {format!r}; take {', '.join(_READERS)}")
    return expanded(_READERS[format](text, name))


def _checked(script: Script, name: str) -> Script:
    script = expanded(script)
    if not any(line.text for line in script.lines):
        raise ScriptError(f"{name}: there is nothing to speak in it")
    return script
