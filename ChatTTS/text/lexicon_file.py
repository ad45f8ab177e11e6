"""The file of a lexicon, in TOML; its errors have the file and the line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..utils.untrusted import read_bytes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_LONGEST_FILE = 1 << 20  # bytes; more than the most entries of the greatest length


@dataclass(frozen=True)
class LexiconFile:
    """A file in TOML.

    Attributes:
        path: where it is.
        text: what it holds.
        table: the values of its keys, unchecked.
    """

    path: Path
    text: str
    table: Mapping[str, Any]

    def error(self, reason: object, word: str | None = None) -> ConfigError:
        """Return the error of an entry, or of the file, that has its place."""
        line = "" if word is None else _line_of(word, self.text)
        return ConfigError(f"{self.path}{line}: {reason}")


def read_lexicon_file(path: Path) -> LexiconFile:
    """Read a file in TOML.

    Raises:
        ConfigError: it cannot be read, or is no TOML.
    """
    try:
        text = read_bytes(path, _LONGEST_FILE).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"the lexicon {path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: the lexicon is not UTF-8 text") from error
    try:
        return LexiconFile(path, text, tomllib.loads(text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: the lexicon is not valid TOML: {error}") from error


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
