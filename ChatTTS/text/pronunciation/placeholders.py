"""Marks of pronunciations as words that no rule for texts changes.

Between the caller's text and the phonemes lie the rules that read a text out and cut it up. They
know words, so a mark becomes one: its bytes are written in letters that no language uses and no
rule knows, the components of Tangut characters. The front end reads the mark from them again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .inline import MARK, Pronunciation, without_symbols

_FIRST = 0x18800
PLACEHOLDERS = "".join(chr(_FIRST + byte) for byte in range(256))

RANGE = f"{PLACEHOLDERS[0]}-{PLACEHOLDERS[-1]}"  # within the brackets of a regular expression

_RUN = re.compile(f"[{RANGE}]+")
# The rules for apostrophes take that of "nginx's" away; a transcript has no rules.
_WITH_ENDING = re.compile(rf"({_RUN.pattern})(?P<ending>['’]?s(?![^\W\d_]))?")
_LETTER = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff]")
# A Tangut character, which no voice knows either, for components that the caller wrote.
_UNKNOWN = "\U00017000"


def with_placeholders(text: str) -> str:
    """Return ``text`` with a placeholder for each mark.

    Raises:
        TextError: the symbols of a mark cannot be read.
    """
    return MARK.sub(_placeholder, _RUN.sub(_UNKNOWN, text))


def without_placeholders(text: str) -> str:
    """Return ``text`` with the marks in place of their placeholders."""
    return _RUN.sub(lambda run: _mark(run[0]), text)


def words_shown(text: str) -> str:
    """Return ``text`` with the words of marks in place of their placeholders."""
    return without_symbols(without_placeholders(text))


def map_between(text: str, change: Callable[[str], str]) -> str:
    """Apply ``change`` to the pieces of ``text`` between the placeholders."""
    parts = re.split(f"({_RUN.pattern})", text)
    parts[::2] = [change(part) if part or len(parts) == 1 else part for part in parts[::2]]
    return "".join(parts)


def find_placeholders(text: str) -> Iterator[tuple[re.Match[str], Pronunciation]]:
    """Yield the placeholders of a text with their pronunciations.

    An "s" behind one is a part of the match, with the name ``ending``, as in "nginx's".

    Raises:
        TextError: symbols cannot be read, of a placeholder that the caller wrote.
    """
    for found in _WITH_ENDING.finditer(text):
        mark = MARK.fullmatch(_mark(found[1]))
        if mark is not None:  # else letters that the caller wrote
            yield found, Pronunciation.of(mark)


def _placeholder(mark: re.Match[str]) -> str:
    given = Pronunciation.of(mark)  # raises where it cannot be read
    written = mark[0] if mark[1] else given.mark
    placeholder = "".join(PLACEHOLDERS[byte] for byte in written[1:-1].encode())
    # Two neighbours would be one word.
    before = " " if _touches(mark.string[max(0, mark.start() - 1) : mark.start()]) else ""
    behind = " " if _LETTER.match(mark.string[mark.end() : mark.end() + 1]) else ""
    return before + placeholder + behind


def _touches(character: str) -> bool:
    return character == "]" or _LETTER.match(character) is not None


def _mark(placeholder: str) -> str:
    source = bytes(ord(letter) - _FIRST for letter in placeholder)
    return f"[{source.decode(errors='replace')}]"
