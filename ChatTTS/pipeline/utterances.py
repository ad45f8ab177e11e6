"""From a caller's texts to utterances, with the words that each of them speaks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..audio.samples import SAMPLE_RATE
from ..errors import NothingToSpeakError, TextError
from ..text import Lexicon, LexiconUse, Normalizer
from ..text.characters import warn_of_lost_letters
from ..text.pauses import PausedPart, blank_pauses, paused_parts
from ..text.prepare import prepared
from ..text.pronunciation.given import spelled_out
from ..text.pronunciation.stand_ins import with_stand_ins, without_stand_ins
from ..text.punctuation import join_lines
from ..text.spoken_words import CallerWord, Reader, assign_words, caller_words
from .model import Model
from .utterance import Utterance

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """Settings that turn texts into spoken words; see ``Chat.infer`` for the fields.

    Attributes:
        lexicon: applied to a text before anything else; its pronunciations are for voices that read
            phonemes.

    Raises:
        ConfigError: the voice reads letters, and an entry of the lexicon has none.
    """

    normalizer: Normalizer
    lang: str | None
    do_text_normalization: bool
    do_homophone_replacement: bool
    lexicon: Lexicon = field(default_factory=Lexicon)

    def __post_init__(self) -> None:
        if not self.normalizer.reads_phonemes:
            object.__setattr__(self, "lexicon", self.lexicon.in_letters())

    def as_words(self, text: str) -> str:
        """Return ``text`` with a word in place of each mark of a pronunciation.

        A voice that reads letters gets letters.

        Raises:
            TextError: a mark cannot be read.
        """
        return with_stand_ins(text) if self.normalizer.reads_phonemes else spelled_out(text)


@dataclass(frozen=True)
class ReadTexts:
    """The utterances of all texts of a call.

    Attributes:
        utterances: in order.
        lexicon_uses: for each text, where the lexicon replaces its words.
        left_out: for each text, what the voice cannot speak of it, each once.
    """

    utterances: list[Utterance]
    lexicon_uses: list[tuple[LexiconUse, ...]]
    left_out: list[tuple[str, ...]]


def word_reader(reading: Reading) -> Reader:
    """Return the function that reads one written word as the texts of a call are read."""
    normalizer, homophones = reading.normalizer, reading.do_homophone_replacement

    def read(word: str) -> str:
        try:
            said = reading.as_words(reading.lexicon.apply(word).text)
            if not reading.do_text_normalization:
                return " ".join(normalizer.read_published(said, homophones).lines)
            # Without a warning of what is left out, which was given for the whole text.
            return join_lines(normalizer.read(said, homophones, reading.lang).lines)
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
) -> ReadTexts:
    """Normalize the texts and cut them into utterances, numbered from ``first``.

    One warning for each text names what is left out of it.

    Args:
        split_text: cut long texts into several utterances.
        read: the spoken form of a written word, if utterances need their words.
        is_strict: raise where a text has no utterance.

    Raises:
        NothingToSpeakError: with ``is_strict``, where a text has no utterance.
    """
    max_characters = model.config.defaults.max_utterance_characters
    utterances: list[Utterance] = []
    lexicon_uses: list[tuple[LexiconUse, ...]] = []
    left_out: list[tuple[str, ...]] = []
    for number, text in enumerate(texts):
        parts = paused_parts(text, reading.lexicon)
        spoken, lost = _spoken_pieces(
            parts, reading, split_text=split_text, max_characters=max_characters
        )
        lexicon_uses.append(tuple(use for part in parts for use in part.uses))
        left_out.append(lost)
        if not spoken:
            error = NothingToSpeakError(text, lost, reading.normalizer.languages)
            if is_strict:
                raise error
            logger.warning("text %d stays empty: %s", number, error)
            continue
        warn_of_lost_letters(lost)
        words: Sequence[tuple[CallerWord, ...]] = [()] * len(spoken)
        if read is not None:
            replaced = ((use.start_character, use.end_character) for use in lexicon_uses[-1])
            pieces = [piece.text for piece in spoken]
            words = assign_words(caller_words(blank_pauses(text), replaced), pieces, read)
        utterances += [
            Utterance(number, i, piece.text, first, own, piece.before, piece.after)
            for i, (piece, own) in enumerate(zip(spoken, words, strict=True))
        ]
    return ReadTexts(utterances, lexicon_uses, left_out)


@dataclass
class _SpokenPiece:
    """A normalized utterance, and the samples of silence that pauses put around it."""

    text: str
    before: int = 0
    after: int = 0


def _spoken_pieces(
    parts: Sequence[PausedPart], reading: Reading, *, split_text: bool, max_characters: int
) -> tuple[list[_SpokenPiece], tuple[str, ...]]:
    """Return the utterances of all parts, and what is left out; a pause ends an utterance."""
    found: list[_SpokenPiece] = []
    left_out: dict[str, None] = {}
    before = 0
    for part in parts:
        read = prepared(
            reading.as_words(part.text),
            reading.normalizer,
            lang=reading.lang,
            do_text_normalization=reading.do_text_normalization,
            do_homophone_replacement=reading.do_homophone_replacement,
            split_text=split_text,
            max_characters=max_characters,
        )
        found += map(_SpokenPiece, read.utterances)
        left_out |= dict.fromkeys(read.left_out)
        pause = round(part.pause * SAMPLE_RATE)
        if found:
            found[-1].after += pause
        else:
            before += pause
    if found:
        found[0].before = before
    return found, tuple(left_out)


def refined_texts(utterances: Sequence[Utterance], count: int, split_text: bool) -> str | list[str]:
    """Return refined texts as scripts know them: one string of lines, or a list of texts."""
    if split_text and count:
        return "\n".join(without_stand_ins(u.text) for u in utterances)
    texts = {u.text_index: without_stand_ins(u.text) for u in utterances}
    return [texts.get(index, "") for index in range(count)]
