"""Words and their phonemes, from a packed file.

The file is one line a word, sorted, in xz: the word, its phonemes, and those of other parts of
speech. In memory it stays one string of bytes that is searched by halving, so that loading it takes
no more than unpacking it. `recipes/english_pronunciation` writes it.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

# In the file a phoneme is one byte: 128 and its place here. Words are ASCII, so both differ.
_PHONEMES = "ˈˌAIOTWYbdfhijklmnpstuvwzæðŋɐɑɔəɛɜɡɪɹʃʊʌʒʤʧθᵊᵻ"
_ENCODED = {phoneme: 128 + place for place, phoneme in enumerate(_PHONEMES)}
# Parts of speech that have readings of their own, as the letter before such a reading.
_PARTS = {
    "N": "noun",
    "V": "verb",
    "J": "adjective",
    "R": "adverb",
    "P": "past",
    "E": "end",
    "D": "that",
}
_LETTERS = {part: letter for letter, part in _PARTS.items()}


@dataclass(frozen=True)
class Entry:
    """The phonemes of a word.

    Attributes:
        phonemes: where nothing else is known.
        others: phonemes by part of speech: "noun", "verb", "adjective", "adverb", "past" (of
            verbs), "end" (before a mark) and "that" (pointing at something). Empty phonemes say
            that the word is spelled out.
    """

    phonemes: str
    others: Mapping[str, str] = field(default_factory=dict)


class Dictionary:
    """Sorted lines of words, searched by halving."""

    def __init__(self, lines: bytes) -> None:
        self._lines = lines

    @classmethod
    def of(cls, entries: Mapping[str, Entry]) -> Dictionary:
        """Make a dictionary of ``entries``; words are ASCII without spaces."""
        return cls(pack_lines(entries.items()))

    def get(self, word: str) -> Entry | None:
        """Return the entry of ``word``, with its case, if there is one."""
        if not word.isascii() or not word or " " in word or "\n" in word:
            return None
        lines, key = self._lines, word.encode() + b" "
        low, high = 0, len(lines)  # both are where lines begin
        while low < high:
            start = lines.rfind(b"\n", low, (low + high) // 2) + 1 or low
            if lines.startswith(key, start):
                return _entry(lines[start + len(key) : lines.index(b"\n", start)])
            if lines[start : start + len(key)] < key:
                low = lines.index(b"\n", start) + 1
            else:
                high = start
        return None


def pack_lines(entries: Iterable[tuple[str, Entry]]) -> bytes:
    """Return the sorted lines of ``entries``, each ended by a line feed."""
    keyed = sorted((word.encode() + b" ", entry) for word, entry in entries)
    return b"".join(key + _fields(entry) + b"\n" for key, entry in keyed)


@lru_cache(maxsize=1)
def load_dictionary() -> Dictionary:
    """Return the packaged dictionary, unpacked once."""
    packed = (files(__package__) / "dictionary.xz").read_bytes()
    return Dictionary(lzma.decompress(packed))


def _fields(entry: Entry) -> bytes:
    others = [_LETTERS[part].encode() + _encoded(text) for part, text in entry.others.items()]
    return b" ".join([_encoded(entry.phonemes), *others])


def _entry(fields: bytes) -> Entry:
    first, *others = fields.split(b" ")
    return Entry(_decoded(first), {_PARTS[chr(part[0])]: _decoded(part[1:]) for part in others})


def _encoded(phonemes: str) -> bytes:
    return bytes(_ENCODED[phoneme] for phoneme in phonemes)


def _decoded(code: bytes) -> str:
    return "".join(_PHONEMES[byte - 128] for byte in code)
