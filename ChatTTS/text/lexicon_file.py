"""Read a lexicon from a file in TOML; an error has the file and the line."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..utils.untrusted import read_bytes
from .lexicon import Lexicon, LexiconEntry

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LONGEST_FILE = 1 << 20  # bytes; more than the most entries of the greatest length


def read_lexicon(path: Path) -> Lexicon:
    """Return the lexicon of a file: see :meth:`.lexicon.Lexicon.load`."""
    try:
        text = read_bytes(path, _LONGEST_FILE).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the lexicon {path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: the lexicon is no text in UTF-8") from error
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: the lexicon is no TOML: {error}") from error
    words: set[str] = set()
    for word, said in table.items():
        try:
            (entry,) = Lexicon.of({word: said}).entries
            _check_new(entry, words)
        except ConfigError as error:
            raise ConfigError(f"{path}{_line_of(word, text)}: {error}") from error
    try:
        return Lexicon.of(table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _check_new(entry: LexiconEntry, words: set[str]) -> None:
    """Note the word of an entry; raise ConfigError if it was there before, spaced differently."""
    if entry.word in words:
        raise ConfigError(f"lexicon entry {entry.word!r}: it is there twice")
    words.add(entry.word)


def _line_of(word: str, text: str) -> str:
    """Return the place of an entry's line for a message; nothing if no line alone has it."""
    for number, line in enumerate(text.splitlines(), 1):
        if word in _keys_of(line):
            return f", line {number}"
    return ""


def _keys_of(line: str) -> dict[str, Any]:
    """Return the table that a line alone makes; an empty one if it is no TOML."""
    try:
        table: dict[str, Any] = tomllib.loads(line)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    return table
