"""The stage ``lines``: what the teacher says, as text and phonemes.

A line is one to three sentences, or a string of words. Some have commas where nothing asks for
one, so that a pause can stand between any two words, and some a laugh.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from ChatTTS.text.pronunciation import Pronouncer, joined
from ChatTTS.text.pronunciation.alphabet import ALPHABET
from ChatTTS.text.pronunciation.english import pronounce_english

from .arrangement import LAUGH
from .counter_rng import CounterRng
from .laughs import LAUGH_PHONEMES
from .run import Run
from .takes import Line
from .texts import (
    LANGUAGES,
    dictionary_words,
    free_sentences,
    frequent_words,
    mandarin_words,
    sentences,
)

logger = logging.getLogger(__name__)

COUNT = 30_000  # lines of each language, about a day of speech together
LONGEST = 330  # phonemes of a line: 20 seconds
_SHORTEST = 3
_MARK = re.compile(r"[,.;:?!…—，。；：？！]")


@dataclass(frozen=True)
class LineShares:
    """The frequencies of kinds of lines.

    Attributes:
        own: of the recipe's own sentences.
        strings: of strings of words. All others are free sentences, or the recipe's own where
            there are none in the language.
        frequent: of the words of strings, that are common ones.
        single, double: lines of one and of two sentences; all others have three.
        commas: lines with a comma between words that need none.
        laughs: lines with a laugh.
        mixed: Mandarin lines with an English word.
    """

    own: float = 0.5
    strings: float = 0.27
    frequent: float = 0.45
    single: float = 0.68
    double: float = 0.22
    commas: float = 0.15
    laughs: float = 0.05
    mixed: float = 0.06


SHARES = LineShares()
Pronounce = Callable[[str], str]


@dataclass(frozen=True)
class Sources:
    """The sources of lines.

    Attributes:
        language: ``en`` or ``zh``.
        own, free: sentences.
        common, rare: words for strings; frequent ones may come several times.
        english: English words for sentences of another language.
    """

    language: str
    own: Sequence[str]
    free: Sequence[str]
    common: Sequence[str]
    rare: Sequence[str]
    english: Sequence[str]

    @classmethod
    def of(cls, language: str) -> Sources:
        """Return all that there is for a language."""
        english = frequent_words()
        if language == "en":
            return cls(
                "en", sentences("en"), free_sentences(), english, dictionary_words(), english
            )
        common, rare = mandarin_words()
        return cls("zh", sentences("zh"), (), common, rare, english)

    @property
    def space(self) -> str:
        """The texts between words and between sentences."""
        return " " if self.language == "en" else ""


def line(
    sources: Sources, rng: CounterRng, pronounce: Pronounce, shares: LineShares = SHARES
) -> Line:
    """Return a line; equal arguments give equal lines.

    Args:
        sources: what it is made of.
        rng: of all choices.
        pronounce: returns the phonemes of a normalised text.
        shares: how often each kind comes.
    """
    while True:
        text = _text(sources, rng, shares)
        # A laugh is a word of its own to the teacher, spoken where the tag stands.
        parts = [part.strip() for part in text.split(LAUGH)]
        phonemes = f" {LAUGH_PHONEMES} ".join(map(pronounce, parts)).strip()
        if _SHORTEST <= len(phonemes) <= LONGEST:
            return Line(text, sources.language, phonemes)


def phonemes_of(text: str) -> str:
    """Return the phonemes of a normalised text of both languages, without tags."""
    return joined(pronouncer(text))


pronouncer = Pronouncer(pronounce_english)


def _text(sources: Sources, rng: CounterRng, shares: LineShares) -> str:
    draw = rng.fraction()
    count = 1 if draw < shares.single else 2 if draw < shares.single + shares.double else 3
    parts = [_sentence(sources, rng, shares) for _ in range(count)]
    if rng.bernoulli(shares.laughs):
        parts.insert(rng.integer(0, count), LAUGH)
    return sources.space.join(parts)


def _sentence(sources: Sources, rng: CounterRng, shares: LineShares) -> str:
    kind = rng.fraction()
    if kind < shares.strings:
        text = _string(sources, rng, shares)
    elif kind < shares.strings + shares.own or not sources.free:
        text = rng.pick(sources.own)
    else:
        text = rng.pick(sources.free)
    is_english = sources.language == "en"
    if not is_english and rng.bernoulli(shares.mixed):
        text = _with_english(text, sources.english, rng)
    if rng.bernoulli(shares.commas):
        text = _with_comma(text, sources.language, rng)
    return text if _MARK.match(text[-1]) else text + ("." if is_english else "。")


def _string(sources: Sources, rng: CounterRng, shares: LineShares) -> str:
    """Return a string of words that follow each other by chance."""
    comma, ends = (",", "...?!") if sources.language == "en" else ("，", "。。。？！")
    count = rng.integer(1, 3) if rng.bernoulli(0.2) else rng.integer(4, 12)
    words = [
        rng.pick(sources.common if rng.bernoulli(shares.frequent) else sources.rare)
        for _ in range(count)
    ]
    marked = [word + comma * rng.bernoulli(0.12) for word in words[:-1]] + words[-1:]
    text = sources.space.join(marked)
    return text[0].upper() + text[1:] + rng.pick(ends)


def _with_english(text: str, words: Sequence[str], rng: CounterRng) -> str:
    """Put an English word behind a mark of a Mandarin text, or before all of it."""
    places = [0, *(match.end() for match in _MARK.finditer(text[:-1]))]
    place = rng.pick(places)
    return f"{text[:place]}{rng.pick(words)}{text[place:]}"


def _with_comma(text: str, language: str, rng: CounterRng) -> str:
    """Put a comma between two words, or two Chinese characters that are no word together."""
    if language == "en":
        words = text.split(" ")
        free = [i for i in range(1, len(words)) if words[i - 1][-1].isalpha()]
        if not free:
            return text
        place = rng.pick(free)
        return " ".join([*words[: place - 1], words[place - 1] + ",", *words[place:]])
    ends = _word_ends(text)
    if not ends:
        return text
    place = rng.pick(ends)
    return f"{text[:place]}，{text[place:]}"


def _word_ends(text: str) -> Sequence[int]:
    """Return where words of a text end and no mark follows."""
    pieces = pronouncer(text)
    return [
        piece.end
        for piece, behind in pairwise(pieces)
        if not piece.joins_next and piece.phonemes.isalpha() and behind.phonemes.isalpha()
    ]


def pairs_of_sounds(lines: Iterable[Line]) -> Counter[str]:
    """Count neighbouring sounds, spaces and stress left out."""
    counted: Counter[str] = Counter()
    for one in lines:
        sounds = re.sub(r"[ ˈˌ]", "", one.phonemes)
        counted.update(a + b for a, b in pairwise(sounds))
    return counted


def main(run: Run) -> None:
    """Write the lines of both languages that are not there yet."""
    run.lines.mkdir(parents=True, exist_ok=True)
    for place, language in enumerate(LANGUAGES):
        path = run.lines / f"{language}.jsonl"
        if path.exists():
            continue
        sources = Sources.of(language)
        made = [
            line(sources, CounterRng(run.seed, 2 * index + place), phonemes_of)
            for index in range(COUNT)
        ]
        unknown = {char for one in made for char in one.phonemes} - set(ALPHABET)
        if unknown:
            raise ValueError(f"the front end writes {unknown}, which no voice reads")
        _write(path, made)
        pairs = pairs_of_sounds(made)
        often = sum(count >= 20 for count in pairs.values())
        logger.info("%s: %d lines, %d pairs of sounds, %d often", path, COUNT, len(pairs), often)


def _write(path: Path, lines: Sequence[Line]) -> None:
    part = path.with_name(f"part-{path.name}")
    with part.open("w", encoding="utf-8") as file:
        for one in lines:
            file.write(json.dumps(vars(one), ensure_ascii=False) + "\n")
    os.replace(part, path)
