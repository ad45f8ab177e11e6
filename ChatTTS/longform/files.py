"""Choose the reader of a file by its ending, or by the caller's word."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ..utils.untrusted import read_bytes
from .cues import read_cues
from .dialogue import is_dialogue, read_dialogue
from .epub import read_epub
from .markdown import read_markdown
from .marks import expanded
from .plain import read_plain
from .script import Script, ScriptError
from .ssml import read_ssml

# A long novel has 4 MB of text.
_MOST_BYTES = 16 << 20

_READERS: Mapping[str, Callable[[str, str], Script]] = {
    "plain": read_plain,
    "markdown": read_markdown,
    "dialogue": read_dialogue,
    "cues": read_cues,
    "ssml": read_ssml,
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
    kind = format or _ENDINGS.get(source.suffix.lower())
    if kind == "epub":
        return _checked(read_epub(source), source)
    try:
        text = read_bytes(source, _MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ScriptError(f"{source} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ScriptError(f"{source}:{line}: it is not UTF-8 text") from error
    return _checked(parse_script(text, str(source), kind), source)


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


def _checked(script: Script, path: Path) -> Script:
    script = expanded(script)
    if not any(line.text for line in script.lines):
        raise ScriptError(f"{path}: there is nothing to speak in it")
    return script
