"""A sentence as phonemes: its words, weak forms and marks."""

from __future__ import annotations

from collections.abc import Sequence

from ..phonemes import Pronounced
from . import stress
from .homographs import reading
from .letters import NAMES
from .part_of_speech import WordContext
from .word_reader import WordReader, load_word_reader
from .word_sets import word_set
from .words import Token, tokens_of

_SHOUTED_WORDS = 3  # of a text in capitals; fewer may be an acronym


def pronounce_english(text: str) -> list[Pronounced]:
    """Return the words and marks of ``text`` with their phonemes, in American English.

    Args:
        text: any text; best is the result of :class:`~ChatTTS.text.Normalizer`, in which numbers
            are words already. Characters that are neither letters, digits nor marks are left out,
            as are letters of scripts other than Latin, Greek and Cyrillic.
    """
    tokens = list(tokens_of(text))
    said = pronounce_tokens(tokens, load_word_reader())
    return [
        Pronounced(token.start, token.end, phonemes)
        for token, phonemes in zip(tokens, said, strict=True)
        if phonemes
    ]


def pronounce_tokens(tokens: Sequence[Token], reader: WordReader) -> list[str]:
    """Return the phonemes of each word and mark."""
    shouted = _is_shouted(tokens)
    words = [token.text.lower() for token in tokens]
    said = [""] * len(tokens)
    vowel: bool | None = None  # what comes next: a vowel, a consonant, or a mark or nothing
    for at in range(len(tokens) - 1, -1, -1):
        token = tokens[at]
        if not token.is_word:
            said[at], vowel = token.text, None
            continue
        context = WordContext(words, at)
        written = token.text.lower() if shouted else token.text
        said[at] = _weak_form(written, context, vowel) or reading(
            reader.read(token.text, shouted), context
        )
        # The article ɐ says nothing, as where Kokoro's texts came from: "to a dog" is "tə ɐ dˈɔɡ".
        sounds = (p in stress.VOWELS for p in said[at] if p in stress.SOUNDS)
        vowel = next(sounds, vowel)
    return said


def _is_shouted(tokens: Sequence[Token]) -> bool:
    words = [token.text for token in tokens if token.is_word and len(token.text) > 1]
    return len(words) >= _SHOUTED_WORDS and all(word == word.upper() for word in words)


def _weak_form(written: str, context: WordContext, vowel: bool | None) -> str | None:
    """Return how a small word is said before ``vowel``; None for other words."""
    lower = context.word
    if len(lower) == 1 and _is_letter(written, context):
        return NAMES[lower]
    capital = written != lower
    if lower == "a":
        return "ɐ"
    if lower == "i":
        return "ˌI"
    if lower == "an" and written != "AN":
        return "ɐn"
    if lower == "the" and written != "THE":
        return "ði" if vowel else "ðə"
    if lower == "to" and written != "TO":
        return "tu" if vowel is None else "tʊ" if vowel else "tə"
    if lower == "in" and written != "IN":
        return "ˈɪn" if vowel is None else "ɪn"
    if lower == "am" and written != "AM":
        after_time = context.before() in _BEFORE_AM
        if after_time and context.ends_phrase:
            return "ˌAˈɛm"
        return "æm" if vowel is None or capital else "ɐm"
    if lower == "am" and context.before() in _BEFORE_AM:
        return "ˌAˈɛm"
    if written == "WHO" and context.before() == "the":
        return stress.weakened(NAMES["w"]) + stress.weakened(NAMES["h"]) + NAMES["o"]
    return None


_BEFORE_AM = word_set(
    "one two three four five six seven eight nine ten eleven twelve o'clock thirty fifteen"
)


def _is_letter(written: str, context: WordContext) -> bool:
    """Tell whether a single letter is said by its name: "a" and "I" are words."""
    if written not in ("a", "A", "I", "i"):
        return written.isalpha()
    before, behind = context.before(), context.behind()
    beside_letter = any(
        len(word) == 1 and word.isalpha() and word not in "ai" for word in (before, behind)
    )
    if written in ("I", "i"):
        return beside_letter
    if beside_letter or context.ends_phrase:
        return True
    return written == "A" and before not in ("", ",")
