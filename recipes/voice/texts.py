"""The sentences of the training, and those that it never contains.

Most were written for this recipe and lie beside this module. The example sentences of WordNet (its
own free licence; `apt install wordnet-base`) come to them where they are installed. Strings of
words by frequency, and of words from the dictionaries, bring the pairs of sounds that no sentence
has.
"""

from __future__ import annotations

import lzma
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from ChatTTS.text.normalizer import Normalizer
from ChatTTS.text.pronunciation.mandarin.lexicon import lexicon

LANGUAGES = ("en", "zh")
# Beyond those of the published set, the voice knows these; `characters` of its configuration.
CHARACTERS = "'?!;:…—\"！；：“”"
HELD_OUT = {
    "english_everyday": "en",
    "english_rare": "en",
    "mandarin": "zh",
    "mixed": "zh",
}
"""Names of the held-out sets of sentences, with their languages."""

WORDNET = Path("/usr/share/wordnet")
_OWN = {"en": "english", "zh": "mandarin"}
_QUOTED = re.compile(r'"([^"]{15,150})"')
_PLAIN = re.compile(r"[A-Za-z',;:?! ]+")
_LEAST_WORDS = 4  # of a free sentence
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_HELD_OUT_SHARE = 50  # one free sentence in so many is never trained on
# Words of Mandarin up to this cost, four times the bits of their rarity, are common ones.
_COMMON_COST, _KNOWN_COST = 60, 84


@lru_cache(maxsize=1)
def normalizer() -> Normalizer:
    """Return the normaliser with the settings of the voice's checkpoint."""
    return Normalizer(characters=CHARACTERS)


def held_out(name: str) -> tuple[str, ...]:
    """Return a set of sentences, as people write them, that training never contains.

    Args:
        name: one of ``HELD_OUT``.
    """
    return _lines(f"heldout_{name}")


@lru_cache(maxsize=2)
def sentences(language: str) -> tuple[str, ...]:
    """Return the recipe's own sentences of ``en`` or ``zh``, normalised."""
    return _normalised(_lines(_OWN[language]), language)


@lru_cache(maxsize=1)
def free_sentences(folder: Path = WORDNET) -> tuple[str, ...]:
    """Return English example sentences of WordNet; none where it is not installed.

    They are those of letters and plain marks alone, which the normaliser leaves as they are.
    """
    found: set[str] = set()
    for path in sorted(folder.glob("data.*")):
        for line in path.read_text(encoding="latin-1").splitlines():
            found.update(match.strip() for match in _QUOTED.findall(line.partition("|")[2]))
    chosen = [
        text[0].upper() + text[1:] + ("" if text[-1] in ".?!" else ".")
        for text in sorted(found)
        if _PLAIN.fullmatch(text) and text.count(" ") >= _LEAST_WORDS - 1
    ]
    keys = {text: _key(text) for text in chosen}
    return tuple(
        text
        for text, key in keys.items()
        if zlib.crc32(key.encode()) % _HELD_OUT_SHARE and key not in _kept_apart()
    )


@lru_cache(maxsize=1)
def frequent_words() -> tuple[str, ...]:
    """Return English words as often as all sentences have them: the same word comes many times."""
    counted = Counter(
        word
        for text in (*sentences("en"), *free_sentences())
        for word in _WORD.findall(text.lower())
    )
    # The root keeps "the" from filling the strings.
    return tuple(
        word
        for word, count in sorted(counted.items())
        for _ in range(round(count**0.5) if count > 1 else 0)
    )


@lru_cache(maxsize=1)
def dictionary_words() -> tuple[str, ...]:
    """Return the words of the English front end's dictionary."""
    packed = files("ChatTTS.text.pronunciation.english").joinpath("dictionary.xz").read_bytes()
    words = (line.split(b" ", 1)[0].decode() for line in lzma.decompress(packed).splitlines())
    return tuple(word for word in words if len(word) > 2 and _WORD.fullmatch(word))


@lru_cache(maxsize=1)
def mandarin_words() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return common and rarer words of the Mandarin front end's lexicon."""
    costs = lexicon().costs
    known = sorted(word for word in costs if re.fullmatch(r"[\u4e00-\u9fff]{1,4}", word))
    common = tuple(word for word in known if costs[word] <= _COMMON_COST)
    rarer = tuple(word for word in known if _COMMON_COST < costs[word] <= _KNOWN_COST)
    return common, rarer


def _normalised(lines: Sequence[str], language: str) -> tuple[str, ...]:
    """Return lines as the model's front end gets them, without those that are held out."""
    read = [normalizer()(line, lang=language).strip() for line in lines]
    return tuple(dict.fromkeys(line for line in read if line and _key(line) not in _kept_apart()))


@lru_cache(maxsize=1)
def _kept_apart() -> frozenset[str]:
    return frozenset(
        _key(normalizer()(line, lang=language))
        for name, language in HELD_OUT.items()
        for line in held_out(name)
    )


def _key(text: str) -> str:
    """Return the letters of a text alone: sentences that differ only in marks count as equal."""
    return "".join(char for char in text.lower() if char.isalpha())


def _lines(name: str) -> tuple[str, ...]:
    path = files(__package__) / "texts" / f"{name}.txt"
    return tuple(line for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
