"""The phonemes of a single word, before its sentence is looked at."""

from __future__ import annotations

import re
from functools import lru_cache

from ...number_words import english_number
from . import stress
from .affixes import derived, inflected, past, plural
from .dictionary import Dictionary, Entry, load_dictionary
from .letter_network import LetterNetwork, load_network
from .letters import spelled
from .word_sets import word_set

_MOST_PARTS = 4  # of a hyphenated word that is said as one
_MOST_APOSTROPHES = 3  # "shouldn't've"; a word of more is none
_LONGEST_KEPT = 64  # letters of a word that is remembered
_LONGEST_RUN = 40  # letters that the network reads at once
_LONGEST_ACRONYM = 10  # letters
_SHORTEST_SAID = 3  # letters of capitals that are spelled in any case
_WITHIN = {"to": "tə", "the": "ðə", "a": "ə", "an": "ən"}  # small words of a hyphenated one
_REPEATED = re.compile(r"([a-z])\1{2,}")
_CLITICS = {"'ll": "əl", "'ve": "əv", "'d": "d", "'re": "əɹ", "'m": "m", "n't": "ᵊnt", "'n": "ᵊn"}
_CASE_CHANGE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VOWEL = re.compile("[aeiouy]")
_CAPITALS = re.compile(r"([A-Z]{2,})('?s|'d|'ing)?")
# Letters of a word that people would not spell out.
_SAYABLE = re.compile(
    r"(?:[bcdfghjklmnpqrstvwxyz]|[bcdfgkpstvw][hlr]|s[ckmnptw]|[dgkt]w|qu|s[cpt]r|wr|kn|ts|ph)?"
    r"(?:[aeiouy]{1,2}(?:[bcdfghjklmnpqrstvwxyz]|[lmnr][bcdfgkmnpstvxz]|s[hkpt]|[cgkpst]h|ck|ct|pt|ks|ss|ll|ff)?"
    r"(?:[lr](?=[aeiouy]))?)+e?"
)
# Capitals that are said as words if they are in a sentence of lower case.
_EMPHASISED = word_set(
    "as be er etc he hi hm hmm in is me mm oh or act add aid mod sat oft lea led tab rip "
    "cap sob dip dew elf coo pow"
)


class WordReader:
    """Reads words by dictionary, rules and letters.

    Args:
        dictionary: words and their phonemes.
        network: reads what nothing else does.
    """

    def __init__(self, dictionary: Dictionary, network: LetterNetwork) -> None:
        self._dictionary = dictionary
        self._network = network
        self._cached = lru_cache(maxsize=8192)(self._read)

    def read(self, word: str, shouted: bool = False) -> Entry:
        """Return how ``word`` is said.

        Args:
            word: ASCII letters with apostrophes and hyphens, or digits.
            shouted: whether its sentence is in capitals, which then say nothing.
        """
        return (self._cached if len(word) <= _LONGEST_KEPT else self._read)(word, shouted)

    def _read(self, word: str, shouted: bool) -> Entry:
        if word.isdigit():
            return Entry(
                " ".join(self.read(part).phonemes for part in english_number(word).split())
            )
        if shouted:
            word = word.lower()
        if "-" in word:
            return self._known(word) or self._clitic(word) or self._hyphenated(word)
        if word.count("'") > _MOST_APOSTROPHES:
            word = word.replace("'", "")
        return self._cased(word)

    def _hyphenated(self, word: str) -> Entry:
        whole = inflected(word.lower(), self._known)
        if whole is not None:
            return whole
        parts = [
            _WITHIN.get(part) or self.read(part).phonemes
            for part in word.split("-")
            if part.strip("'")
        ]
        if len(parts) > _MOST_PARTS:
            return Entry(" ".join(parts))
        return Entry(stress.compounded(parts))

    def _cased(self, word: str) -> Entry:
        """Read a word by its capitals first."""
        if len(word.strip("'")) == 1:
            return self._dictionary.get(word) or Entry(spelled(word.strip("'")))
        capitals = _CAPITALS.fullmatch(word)
        if capitals:
            return self._of_capitals(word, capitals[1], capitals[2] or "")
        entry = self._known(word) or self._clitic(word)
        if entry is not None:
            if word[0].isupper():
                others = {
                    part: stress.lightly_stressed(said) for part, said in entry.others.items()
                }
                return Entry(stress.lightly_stressed(entry.phonemes), others)
            return entry
        if word.startswith("Mc") and word[2:3].isupper():
            return Entry("mək" + self.read(word[2:]).phonemes.removeprefix("k"))
        if word[1:] != word[1:].lower():
            parts = _CASE_CHANGE.findall(word)
            if len(parts) > 1:
                return Entry(stress.compounded([self._cased(part).phonemes for part in parts]))
        return self._lower(word.lower())

    def _of_capitals(self, word: str, letters: str, ending: str) -> Entry:
        """Read NASA, FBI, CDs, or a word that is stressed by capitals."""
        lower = letters.lower()
        exact = self._dictionary.get(letters)
        if (
            exact is not None
            and exact.phonemes
            and ("noun" not in exact.others or lower in _EMPHASISED)
        ):
            said = stress.stressed(exact.phonemes)
        else:
            find = self._known if len(letters) > _SHORTEST_SAID else self._dictionary.get
            known = None if exact is not None else find(lower)
            if known is not None and known.phonemes:
                said = stress.stressed(known.phonemes)
            elif exact is None and _is_sayable(lower):
                said = stress.stressed(self._lower(lower).phonemes)
            else:
                said = spelled(letters)
        if ending.endswith("s"):
            said = plural(said)
        elif ending == "'d":
            said = past(said)
        elif ending == "ing":
            said = stress.with_ending(said, "ɪŋ")
        return Entry(said)

    def _known(self, word: str) -> Entry | None:
        """Find ``word`` as it is written, in lower case, or with a capital."""
        lower = word.lower()
        for form in dict.fromkeys((word, lower, lower.capitalize())):
            entry = self._dictionary.get(form)
            if entry is not None and entry.phonemes:
                return entry
        return None

    def _clitic(self, word: str) -> Entry | None:
        """Read 's, n't and the like behind any word."""
        lower = word.lower()
        if lower.endswith("'s") and len(word) > 2:
            return Entry(plural(self.read(word[:-2]).phonemes))
        if lower.endswith("s'"):
            return self.read(word[:-1])
        for clitic, said in _CLITICS.items():
            if lower.endswith(clitic) and len(word) > len(clitic):
                stem = self.read(word[: -len(clitic)]).phonemes
                if clitic == "'d" and stem[-1:] in ("t", "d"):
                    said = "ᵻd"
                return Entry(stem + (said[1:] if said[0] == "ə" and stem[-1:] in "iu" else said))
        return None

    def _lower(self, word: str) -> Entry:
        """Read a word that the dictionary lacks."""
        made = derived(word, self._known)
        if made is not None:
            return made
        letters = word.replace("'", "")
        shorter = _REPEATED.sub(r"\1\1", letters), _REPEATED.sub(r"\1", letters)
        for form in dict.fromkeys(shorter):  # "sooooo", "hmmmm"
            if form != word and (known := self._known(form)):
                return known
        if not _VOWEL.search(letters):
            return Entry(spelled(letters))
        runs = [letters[i : i + _LONGEST_RUN] for i in range(0, len(letters), _LONGEST_RUN)]
        return Entry("".join(self._network.phonemes(run) for run in runs))


@lru_cache(maxsize=1)
def load_word_reader() -> WordReader:
    """Return the reader of the packaged dictionary and network, loaded once."""
    return WordReader(load_dictionary(), load_network())


def _is_sayable(letters: str) -> bool:
    """Tell whether capitals, in no dictionary, are said as a word: IKEA, but not HTML or USB."""
    if len(letters) > _LONGEST_ACRONYM:
        return True
    return len(letters) > _SHORTEST_SAID and _SAYABLE.fullmatch(letters) is not None
