"""A lexicon: the caller's own words, and how each of them is said.

It is applied to the written text, before the text is read out. A word that is replaced stays one
word of the caller's text: its characters are known, and it lasts as long as its saying.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from ..errors import ConfigError, TextError, shown
from .lexicon_file import read_lexicon_file
from .pronunciation.inline import MARK, NOTATIONS, Pronunciation

MOST_ENTRIES = 1000
LONGEST_WORD = 100  # characters
LONGEST_SAYING = 200  # characters
_LONGEST_WRITTEN = 10_000  # with its spaces

_HAN = r"\u3040-\u30ff\u3400-\u9fff"
_ACCENTS = r"\u0300-\u036f"
# A run of letters and digits, a Chinese character, white space, or any other character.
_TOKEN = re.compile(rf"(?:[^\W{_HAN}][{_ACCENTS}]*)+|\s+|.", re.DOTALL)
_WORD_CHARACTER = re.compile(rf"[^\W{_HAN}]")
# A control tag is never replaced, nor a word whose pronunciation is given; but the label of a link
# is no tag. An address is replaced only as a whole.
_TAG = re.compile(rf"\[\w+\](?!\()|{MARK.pattern}")
_ADDRESS = re.compile(
    r"https?://[^\s()\[\]<>\"]+|\bwww\.[^\s()\[\]<>\"]+|(?<=\]\()[^\s()]+"
    r"|(?<![\w.+-])[A-Za-z0-9.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
)
_IPA = re.compile(r"/(.*)/")
_PHONEMES = re.compile(r"^\{.*\}$|[\u0250-\u02af\u02c8\u02cc\u02d0\u02d1]")
_APOSTROPHES = str.maketrans("’‘ʼ", "'''")


@dataclass(frozen=True)
class LexiconEntry:
    """A word and its saying.

    Attributes:
        word: as it is written; may be several words, or Chinese characters.
        saying: the text that is read in its place. With a pronunciation it is for voices that read
            letters, and may be empty: then the entry cannot be used with them.
        exact: whether upper and lower case count. They always count for a word with an upper-case
            letter. A word in lower case stands for all its forms otherwise.

    Raises:
        ConfigError: the word or the saying cannot be used; the message names the entry.
    """

    word: str
    saying: str
    exact: bool = False
    pronunciation: Pronunciation | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "word", _plain(self.word, self.word, "word", LONGEST_WORD))
        if not isinstance(self.exact, bool):
            raise _wrong(self.word, f"exact must be true or false, not {shown(self.exact)}")
        if self.saying == "" and self.pronunciation is not None:
            return
        saying = _plain(self.word, self.saying, "saying", LONGEST_SAYING)
        object.__setattr__(self, "saying", saying)
        if _PHONEMES.search(saying):
            raise _wrong(
                self.word,
                f"the saying {shown(saying)} has phonemes: write them as ipa, x-sampa or pinyin, "
                "or the saying in letters, as it sounds",
            )
        if not any(character.isalnum() for character in saying):
            raise _wrong(self.word, f"the saying {shown(saying)} has no letter and no digit")

    @property
    def is_exact(self) -> bool:
        """Return whether only this very spelling is replaced."""
        return self.exact or self.word != self.word.lower()

    @property
    def shown_saying(self) -> str:
        """The saying, or the symbols of the pronunciation, for people to read."""
        return self.saying if self.pronunciation is None else str(self.pronunciation)

    def spoken(self, written: str) -> str:
        """Return what is put in the place of the word: a text, or the mark of a pronunciation.

        Args:
            written: the word, as the text has it.
        """
        if self.pronunciation is None:
            return self.saying
        return replace(self.pronunciation, word=written).mark


@dataclass(frozen=True)
class LexiconUse:
    """A place where a lexicon was applied.

    Attributes:
        text: as the caller wrote it.
        saying: what is read in its place.
        start_character, end_character: its characters in the caller's text.
    """

    text: str
    saying: str
    start_character: int
    end_character: int


@dataclass(frozen=True)
class Respelled:
    """A text with its sayings.

    Attributes:
        text: to be read out.
        uses: the places in the caller's text that were replaced, in order.
    """

    text: str
    uses: tuple[LexiconUse, ...] = ()


@dataclass(frozen=True)
class Lexicon:
    """Words and their sayings; threads may share one.

    Where entries overlap in a text, the longest one that begins first is used. A saying is never
    replaced again. Entries are whole words; Chinese characters may be anywhere.

    Raises:
        ConfigError: two entries are for one word, or there are more than ``MOST_ENTRIES``.
    """

    entries: tuple[LexiconEntry, ...] = ()

    def __post_init__(self) -> None:
        if len(self.entries) > MOST_ENTRIES:
            raise ConfigError(
                f"the lexicon has {len(self.entries)} entries; the limit is {MOST_ENTRIES}"
            )
        known = set()
        for entry in self.entries:
            if entry.word in known:
                raise _wrong(entry.word, "it appears twice")
            known.add(entry.word)

    def __reduce__(self) -> tuple[Any, ...]:
        return Lexicon, (self.entries,)  # without the table, which is made again

    @classmethod
    def of(cls, given: LexiconLike | None) -> Lexicon:
        """Return the lexicon of a mapping from words to sayings.

        A saying is a text, or IPA between slashes, or a mapping with ``say``, ``ipa``, ``x-sampa``
        or ``pinyin``, and ``exact``. A ``Lexicon`` is returned as it is, and ``None`` is an empty
        one.

        Raises:
            ConfigError: an entry cannot be used; the message names it.
        """
        if given is None:
            return cls()
        if isinstance(given, Lexicon):
            return given
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"a lexicon must map words to pronunciations, not be {shown(given)}: "
                '{"nginx": "engine x"}'
            )
        if len(given) > MOST_ENTRIES:
            raise ConfigError(f"the lexicon has {len(given)} entries; the limit is {MOST_ENTRIES}")
        return cls(tuple(_entry(word, said) for word, said in given.items()))

    @classmethod
    def load(cls, path: str | Path) -> Lexicon:
        """Read a file in TOML, with a line ``word = "saying"`` for each entry.

        Raises:
            ConfigError: the file cannot be read, or an entry cannot be used; the message has the
                file and the line.
        """
        file = read_lexicon_file(Path(path))
        entries: dict[str, LexiconEntry] = {}
        for word, said in file.table.items():
            try:
                entry = _entry(word, said)
                if entry.word in entries:
                    raise _wrong(entry.word, "it appears twice")
            except ConfigError as error:
                raise file.error(error, word) from error
            entries[entry.word] = entry
        try:
            return cls(tuple(entries.values()))
        except ConfigError as error:
            raise file.error(error) from error

    def extended(self, other: Lexicon) -> Lexicon:
        """Return the entries of both; those of ``other`` replace entries for their words."""
        words = {entry.word for entry in other.entries}
        any_case = {entry.word for entry in other.entries if not entry.is_exact}
        kept = (e for e in self.entries if e.word not in words and e.word.lower() not in any_case)
        merged = Lexicon()
        object.__setattr__(merged, "entries", (*kept, *other.entries))  # each was checked alone
        return merged

    def in_letters(self) -> Lexicon:
        """Return the lexicon for a voice that reads letters.

        Raises:
            ConfigError: an entry has a pronunciation and no saying; the message names it.
        """
        if all(entry.pronunciation is None for entry in self.entries):
            return self
        for entry in self.entries:
            if not entry.saying:
                raise _wrong(
                    entry.word,
                    f"this voice reads letters, and not {shown(entry.shown_saying)}: add the "
                    'saying in letters, as it sounds: { ipa = "...", say = "..." }',
                )
        return Lexicon(tuple(replace(entry, pronunciation=None) for entry in self.entries))

    def apply(self, text: str) -> Respelled:
        """Return ``text`` with the sayings of its words; control tags and addresses stay.

        A word with a pronunciation becomes its mark.
        """
        if not self.entries:
            return Respelled(text)
        tokens = [(match.start(), match[0]) for match in _TOKEN.finditer(text)]
        keys = [_key(token) for _, token in tokens]
        closed = _Spans(_TAG, text)
        addresses = _Spans(_ADDRESS, text)
        parts: list[str] = []
        uses: list[LexiconUse] = []
        done = index = 0
        while index < len(tokens):
            found = self._found(keys, tokens, index)
            start = tokens[index][0]
            if found is None:
                index += 1
                continue
            entry, size = found
            last = index + size - 1
            end = tokens[last][0] + len(tokens[last][1])
            if closed.touches(start, end) or addresses.is_cut_by(start, end):
                index += 1
                continue
            said = _spaced(text[:start][-1:], entry.spoken(text[start:end]), text[end : end + 1])
            parts += [text[done:start], said]
            uses.append(LexiconUse(text[start:end], entry.shown_saying, start, end))
            done, index = end, index + size
        return Respelled("".join([*parts, text[done:]]), tuple(uses))

    @cached_property
    def _table(self) -> dict[str, list[_SameSize]]:
        """Entries by their first token and their number of tokens, the most tokens first."""
        sizes: dict[str, dict[int, _SameSize]] = {}
        # Of entries for one spelling, the exact one goes first.
        for entry in sorted(self.entries, key=lambda entry: not entry.is_exact):
            tokens = [_uniform(token) for token in _TOKEN.findall(entry.word)]
            keys = tuple(token.lower() for token in tokens)
            same = sizes.setdefault(keys[0], {}).setdefault(len(keys), _SameSize(len(keys), {}))
            same.entries.setdefault(keys, []).append((entry, tokens))
        return {
            first: sorted(by_size.values(), key=lambda same: same.size, reverse=True)
            for first, by_size in sizes.items()
        }

    def _found(
        self, keys: list[str], tokens: list[tuple[int, str]], index: int
    ) -> tuple[LexiconEntry, int] | None:
        """Return the entry for the tokens from ``index`` on, and how many they are."""
        for same in self._table.get(keys[index], ()):
            end = index + same.size
            for entry, own in same.entries.get(tuple(keys[index:end]), ()):
                if entry.is_exact and own != [_uniform(token) for _, token in tokens[index:end]]:
                    continue
                if not _is_part(keys, index, end):
                    return entry, same.size
        return None


@dataclass(frozen=True)
class _SameSize:
    """Entries of one number of tokens, with these tokens, by the tokens in lower case."""

    size: int
    entries: dict[tuple[str, ...], list[tuple[LexiconEntry, list[str]]]]


LexiconLike: TypeAlias = "Lexicon | Mapping[str, str | Mapping[str, Any]]"


class _Spans:
    """The matches of a pattern in a text."""

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._spans = [match.span() for match in pattern.finditer(text)]
        self._starts = [start for start, _ in self._spans]

    def touches(self, start: int, end: int) -> bool:
        """Return whether a match has characters from ``start`` to ``end``."""
        return any(True for _ in self._overlapping(start, end))

    def is_cut_by(self, start: int, end: int) -> bool:
        """Return whether a match lies partly within ``start`` to ``end``, or around it."""
        return any(a < start or b > end for a, b in self._overlapping(start, end))

    def _overlapping(self, start: int, end: int) -> list[tuple[int, int]]:
        first = max(0, bisect_right(self._starts, start) - 1)
        last = bisect_right(self._starts, end - 1)
        return [span for span in self._spans[first:last] if span[1] > start]


def _entry(word: object, said: object) -> LexiconEntry:
    """Return the entry of a word and its saying, as a mapping or a file has them."""
    if not isinstance(word, str):
        raise ConfigError(f"a word of the lexicon must be text, not {shown(word)}")
    if isinstance(said, str) and (ipa := _IPA.fullmatch(said.strip())):
        said = {"ipa": ipa[1]}
    if not isinstance(said, Mapping):
        return LexiconEntry(word, said)  # type: ignore[arg-type]  # the entry checks it
    others = [name for name in said if name not in ("say", "exact", *NOTATIONS)]
    if others:
        known = f"say, {', '.join(NOTATIONS)} and exact"
        raise _wrong(word, f"there is no {shown(others[0])}; a table has {known}")
    pronunciation = _pronunciation(word, said)
    if "say" not in said and pronunciation is None:
        raise _wrong(word, 'its table has no saying: write { say = "...", exact = true }')
    return LexiconEntry(word, said.get("say", ""), said.get("exact", False), pronunciation)


def _pronunciation(word: str, said: Mapping[str, Any]) -> Pronunciation | None:
    """Return the pronunciation of a table, if it has one."""
    given = [name for name in NOTATIONS if name in said]
    if not given:
        return None
    if len(given) > 1:
        raise _wrong(word, f"it has {given[0]} and {given[1]}: one pronunciation is enough")
    symbols = _plain(word, said[given[0]], given[0], LONGEST_SAYING)
    try:
        return Pronunciation(given[0], symbols)
    except TextError as error:
        raise _wrong(word, str(error)) from error


def _plain(word: object, text: object, what: str, most: int) -> str:
    """Return a word or saying with single spaces.

    Raises:
        ConfigError: it is empty, too long, or has characters that mean something else.
    """
    if not isinstance(text, str):
        raise _wrong(word, f"the {what} must be text, not {shown(text)}")
    plain = text if len(text) > _LONGEST_WRITTEN else _composed(text)
    if not plain:
        raise _wrong(word, f"the {what} is empty")
    if len(plain) > most:
        raise _wrong(word, f"the {what} has {len(plain)} characters; the limit is {most}")
    bad = [c for c in plain if c in "[]" or unicodedata.category(c) in ("Cc", "Cs")]
    if bad:
        raise _wrong(word, f"the {what} must not have the character {bad[0]!r}")
    return plain


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", " ".join(text.split()))


def _wrong(word: object, why: str) -> ConfigError:
    return ConfigError(f"lexicon entry {shown(word)}: {why}")


def _uniform(token: str) -> str:
    """Return a token as entries have it: composed letters, one apostrophe, one space."""
    if token.isspace():
        return " " if token.count("\n") < 2 else "\n"  # an entry does not span paragraphs
    return unicodedata.normalize("NFC", token).translate(_APOSTROPHES)


def _key(token: str) -> str:
    return _uniform(token).lower()


def _is_part(keys: list[str], start: int, end: int) -> bool:
    """Return whether these tokens are a part of a contraction, such as "can" of "can't".

    A possessive ("Anna's") is the word and its ending.
    """
    before = start >= 2 and keys[start - 1] == "'" and _is_word(keys[start - 2])
    after = len(keys) > end + 1 and keys[end] == "'" and _is_word(keys[end + 1])
    return (before and _is_word(keys[start])) or (
        after and _is_word(keys[end - 1]) and keys[end + 1] != "s"
    )


def _is_word(key: str) -> bool:
    return _WORD_CHARACTER.match(key) is not None


def _spaced(before: str, saying: str, after: str) -> str:
    """Return a saying with a space where it would merge with a neighbouring letter or digit."""
    left = " " if _is_word(before) and _is_word(saying[0]) else ""
    right = " " if _is_word(after) and _is_word(saying[-1]) else ""
    return left + saying + right
