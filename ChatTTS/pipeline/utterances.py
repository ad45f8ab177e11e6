"""From a caller's texts to utterances, with the words that each of them speaks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ..audio.samples import SAMPLE_RATE
from ..errors import NothingToSpeakError, TextError
from ..text import Lexicon, LexiconUse, Normalizer, prepare
from ..text.pauses import PausedPart, blank_pauses, paused_parts
from ..text.spoken_words import CallerWord, Reader, assign_words, caller_words
from .frame_generation import Utterance
from .model import Model

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """Settings that turn texts into spoken words; see ``Chat.infer`` for the fields.

    Attributes:
        lexicon: applied to a text before anything else.
    """

    normalizer: Normalizer
    lang: str | None
    do_text_normalization: bool
    do_homophone_replacement: bool
    lexicon: Lexicon = field(default_factory=Lexicon)

    def lexicon_uses(self, texts: Sequence[str]) -> tuple[tuple[LexiconUse, ...], ...]:
        """Return for each text where the lexicon replaces its words."""
        return tuple(
            tuple(use for part in paused_parts(text, self.lexicon) for use in part.uses)
            for text in texts
        )


def word_reader(reading: Reading) -> Reader:
    """Return the function that reads one written word as the texts of a call are read."""

    def read(word: str) -> str:
        try:
            return reading.normalizer(
                reading.lexicon.apply(word).text,
                reading.do_text_normalization,
                reading.do_homophone_replacement,
                reading.lang,
            )
        except TextError:  # of a registered function, which has read the whole text before
            return word

    return read


def utterances_of(
    model: Model,
    texts: Sequence[str],
    reading: Reading,
    *,
    split_text: bool,
    read: Reader | None,
    first: int = 0,
    is_strict: bool = False,
) -> list[Utterance]:
    """Normalize the texts and cut them into utterances, numbered from ``first``.

    Args:
        split_text: cut long texts into several utterances.
        read: the spoken form of a written word, if utterances need their words.
        is_strict: raise where a text has no utterance.

    Raises:
        NothingToSpeakError: with ``is_strict``, where a text has no utterance.
    """
    most = model.config.defaults.max_utterance_characters
    utterances = []
    for number, text in enumerate(texts):
        parts = paused_parts(text, reading.lexicon)
        try:
            spoken = _spoken_pieces(text, parts, reading, split_text=split_text, most=most)
        except NothingToSpeakError as error:
            if is_strict:
                raise
            logger.warning("text %d stays empty: %s", number, error)
            continue
        words: Sequence[tuple[CallerWord, ...]] = [()] * len(spoken)
        if read is not None:
            replaced = (
                (use.start_character, use.end_character) for part in parts for use in part.uses
            )
            pieces = [piece.text for piece in spoken]
            words = assign_words(caller_words(blank_pauses(text), replaced), pieces, read)
        utterances += [
            Utterance(number, i, piece.text, first, own, piece.before, piece.after)
            for i, (piece, own) in enumerate(zip(spoken, words, strict=True))
        ]
    return utterances


@dataclass
class _SpokenPiece:
    """A normalized utterance, and the samples of silence that pauses put around it."""

    text: str
    before: int = 0
    after: int = 0


def _spoken_pieces(
    text: str, parts: Sequence[PausedPart], reading: Reading, *, split_text: bool, most: int
) -> list[_SpokenPiece]:
    """Return the utterances of all parts; a pause always ends an utterance.

    Raises:
        NothingToSpeakError: there is none.
    """
    found: list[_SpokenPiece] = []
    before = 0
    for part in parts:
        with suppress(NothingToSpeakError):
            pieces = prepare(
                part.text,
                reading.normalizer,
                lang=reading.lang,
                do_text_normalization=reading.do_text_normalization,
                do_homophone_replacement=reading.do_homophone_replacement,
                split_text=split_text,
                max_characters=most,
            )
            found += map(_SpokenPiece, pieces)
        pause = round(part.pause * SAMPLE_RATE)
        if found:
            found[-1].after += pause
        else:
            before += pause
    if not found:
        raise NothingToSpeakError(text)
    found[0].before = before
    return found


def refined_texts(utterances: Sequence[Utterance], count: int, split_text: bool) -> str | list[str]:
    """Return refined texts as scripts know them: one string of lines, or a list of texts."""
    if split_text and count:
        return "\n".join(u.text for u in utterances)
    texts = {u.text_index: u.text for u in utterances}
    return [texts.get(index, "") for index in range(count)]
