"""The front end of voices that read phonemes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from ...spoken_form import SpokenForm
from .alphabet import ALPHABET, as_tokens
from .english import pronounce_english
from .english.affixes import plural
from .phonemes import Pronounced, spaced
from .placeholders import find_placeholders
from .pronouncer import Pronouncer

_CHARACTERS_KEPT = 1 << 14
# English and Mandarin: the dictionaries are read with the first words.
_WARM_UP = "we say 你好"


class PhonemeFrontEnd:
    """Reads English and Mandarin out as phonemes."""

    def __init__(self) -> None:
        self._pronounce = Pronouncer(pronounce_english)
        self._knows = lru_cache(_CHARACTERS_KEPT)(self._has_sound)
        self.spoken(_WARM_UP)

    @property
    def tokens(self) -> tuple[str, ...]:
        """A token for each symbol of the alphabet."""
        return tuple(map(as_tokens, ALPHABET))

    def spoken(self, text: str) -> SpokenForm:
        """Return the spoken form: see :class:`~ChatTTS.spoken_form.FrontEnd`."""
        return spoken_form(self._pronounce(text, _inline_pronunciations(text)))

    def knows(self, character: str) -> bool:
        """Return whether a character has a sound of its own."""
        return self._knows(character)

    def _has_sound(self, character: str) -> bool:
        return any(piece.phonemes for piece in self._pronounce(character))


def spoken_form(pieces: Iterable[Pronounced]) -> SpokenForm:
    """Return pieces as tokens, spaced as :func:`~.phonemes.joined` spaces them.

    No space stands beside a control tag, which parts words by itself.
    """
    text: list[str] = []
    origins: list[tuple[int, int]] = []
    for written, origin in _written(pieces):
        text.append(written)
        origins += [origin] * len(written)
    return SpokenForm("".join(text), tuple(origins))


def _inline_pronunciations(text: str) -> Iterator[Pronounced]:
    """Yield the words that a placeholder says how to pronounce."""
    for found, pronunciation in find_placeholders(text):
        phonemes = pronunciation.phonemes
        yield Pronounced(*found.span(), plural(phonemes) if found["ending"] else phonemes)


def _written(pieces: Iterable[Pronounced]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield tokens, each with the characters that it speaks."""
    follows_tag = False
    for piece, is_apart in spaced(pieces):
        is_tag = piece.phonemes.startswith("[")
        if is_apart and not (is_tag or follows_tag):
            yield as_tokens(" "), (piece.start, piece.start)
        yield piece.phonemes if is_tag else as_tokens(piece.phonemes), (piece.start, piece.end)
        follows_tag = is_tag
