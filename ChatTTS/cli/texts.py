"""Read the text of a command: words, files or standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from .console import UsageError

STANDARD = "-"


def gather_text(words: Sequence[str], files: Sequence[str], *, stream: bool = False) -> str:
    """Return the text of all words or files.

    Words are joined by spaces, files by line breaks. Standard input is read for a single ``-``,
    and for no words and files at all if it is not a terminal.

    Args:
        stream: whether ``-`` beside words or files means standard output.

    Raises:
        UsageError: there is no text, there are both words and files, or it is not UTF-8.
    """
    if stream and (files or len(words) > 1):
        words = [word for word in words if word != STANDARD]
    if words and files:
        raise UsageError("give either TEXT or files (-f), not both")
    if files:
        text = "\n".join(_read_file(name) for name in files)
    elif list(words) == [STANDARD] or (not words and _piped()):
        text = _read_stdin()
    else:
        text = " ".join(words)
    if not text.strip():
        raise UsageError(
            "there is no text to speak: give it (`chattts say Hello`), give a file (-f "
            "story.txt), or pipe it to standard input"
        )
    return text


def _piped() -> bool:
    return sys.stdin is not None and not sys.stdin.isatty()


def _read_stdin() -> str:
    return _decode(sys.stdin.buffer.read(), "standard input")


def _read_file(name: str) -> str:
    if name == STANDARD:
        return _read_stdin()
    try:
        return _decode(Path(name).read_bytes(), name)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}") from error


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{name} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8"
        ) from error
