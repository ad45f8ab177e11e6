"""From a caller's texts to utterances, with the words that each of them speaks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from ..audio.samples import SAMPLE_RATE
from ..errors import ConfigError, NothingToSpeakError, TextError, shown
from ..text import Lexicon, LexiconUse, Normalizer
from ..text.characters import warn_of_lost_letters
from ..text.emphasis import Emphasis, unmarked
from ..text.pauses import LONGEST_PAUSE, PausedPart, blank_marks, paused_parts
from ..text.prepare import prepared
from ..text.pronunciation.inline import spelled_out
from ..text.pronunciation.placeholders import with_placeholders, without_placeholders
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
        return with_placeholders(text) if self.normalizer.reads_phonemes else spelled_out(text)


@dataclass(frozen=True)
class ReadTexts:
    """The utterances of all texts of a call.

    Attributes:
        utterances: in order.
        lexicon_uses: for each text, where the lexicon replaces its words.
        left_out: for each text, what the voice cannot speak of it, each once.
        speakers: for each text, the speaker that its language chooses; ``None`` where the caller
            names a voice.
    """

    utterances: list[Utterance]
    lexicon_uses: list[tuple[LexiconUse, ...]]
    left_out: list[tuple[str, ...]]
    speakers: list[str | None]


@dataclass(frozen=True)
class Silences:
    """Samples of silence between audible samples, at places that callers choose in each text.

    Attributes:
        before: the first audible sample; ``None`` leaves this place as the voice speaks it.
        after: the last one, likewise.
        between: two paragraphs, likewise.
    """

    before: int | None = None
    after: int | None = None
    between: int | None = None

    @property
    def are_at_ends(self) -> bool:
        """Return whether there is one at an end."""
        return self.before is not None or self.after is not None

    @classmethod
    def of(
        cls, before: float | None, after: float | None, between: float | None = None
    ) -> Silences:
        """Return the samples of seconds.

        Raises:
            ConfigError: one is no number from 0 to ten minutes.
        """
        samples = []
        given = {"silence_before": before, "silence_after": after, "paragraph_pause": between}
        for name, value in given.items():
            if value is not None and not _is_pause(value):
                raise ConfigError(
                    f"{name} must be from 0 to {LONGEST_PAUSE:g} seconds, not {shown(value)}"
                )
            samples.append(None if value is None else round(value * SAMPLE_RATE))
        return cls(*samples)


def _is_pause(value: Any) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and 0 <= float(value) <= LONGEST_PAUSE


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
    silences: Silences = Silences(),
    speaker_of: Callable[[str], str | None] = lambda text: None,
) -> ReadTexts:
    """Normalize the texts and cut them into utterances, numbered from ``first``.

    One warning for each text names what is left out of it.

    Args:
        split_text: cut long texts into several utterances.
        read: the spoken form of a written word, if utterances need their words.
        is_strict: raise where a text has no utterance.
        silences: that are exact.
        speaker_of: returns the speaker that a text has by its language.

    Raises:
        NothingToSpeakError: with ``is_strict``, where a text has no utterance.
    """
    max_characters = model.config.defaults.max_utterance_characters
    utterances: list[Utterance] = []
    lexicon_uses: list[tuple[LexiconUse, ...]] = []
    left_out: list[tuple[str, ...]] = []
    speakers = [speaker_of(text) for text in texts]
    for number, text in enumerate(texts):
        by_paragraphs = silences.between is not None
        parts = paused_parts(text, reading.lexicon, by_paragraphs=by_paragraphs)
        spoken, lost = _spoken_pieces(
            parts,
            reading,
            split_text=split_text,
            max_characters=max_characters,
            between=silences.between,
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
            words = assign_words(caller_words(blank_marks(text), replaced), pieces, read)
        _set_ends(spoken, silences)
        emphases = () if read is None else unmarked(text).emphases
        utterances += [
            Utterance(
                number,
                i,
                piece.text,
                first,
                own,
                piece.before,
                piece.after,
                piece.cuts_start,
                piece.cuts_end,
                _emphases_of(own, emphases),
                speakers[number],
            )
            for i, (piece, own) in enumerate(zip(spoken, words, strict=True))
        ]
    return ReadTexts(utterances, lexicon_uses, left_out, speakers)


@dataclass
class _SpokenPiece:
    """A normalized utterance, the samples of silence around it, and whether they are exact."""

    text: str
    before: int = 0
    after: int = 0
    cuts_start: bool = False
    cuts_end: bool = False


def _spoken_pieces(
    parts: Sequence[PausedPart],
    reading: Reading,
    *,
    split_text: bool,
    max_characters: int,
    between: int | None,
) -> tuple[list[_SpokenPiece], tuple[str, ...]]:
    """Return the utterances of all parts, and what is left out; a pause ends an utterance.

    Args:
        between: samples between two paragraphs where no pause is written.
    """
    found: list[_SpokenPiece] = []
    left_out: dict[str, None] = {}
    pause, is_exact, has_ended = 0, False, False
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
        left_out |= dict.fromkeys(read.left_out)
        pieces = list(map(_SpokenPiece, read.utterances))
        if pieces:
            if has_ended and found and not pause and between is not None:
                pause, is_exact = between, True
            _part_by(found[-1] if found else None, pieces[0], pause, is_exact=is_exact)
            found += pieces
            pause, is_exact, has_ended = 0, False, False
        pause += round(part.pause * SAMPLE_RATE)
        is_exact |= part.is_exact
        has_ended |= part.ends_paragraph
    if found:
        _part_by(found[-1], None, pause, is_exact=is_exact)
    return found, tuple(left_out)


def _part_by(
    before: _SpokenPiece | None, after: _SpokenPiece | None, pause: int, *, is_exact: bool
) -> None:
    """Put a pause between two utterances; ``None`` is an end of the text."""
    if before is None:
        assert after is not None
        after.before, after.cuts_start = pause, is_exact
        return
    before.after, before.cuts_end = pause, is_exact
    if after is not None:
        after.cuts_start = is_exact


def _set_ends(spoken: Sequence[_SpokenPiece], ends: Silences) -> None:
    """Put exact silence at the ends of a text, in place of that of its own breaks."""
    first, last = spoken[0], spoken[-1]
    if ends.before is not None:
        first.before, first.cuts_start = ends.before, True
    if ends.after is not None:
        last.after, last.cuts_end = ends.after, True


def _emphases_of(words: Sequence[CallerWord], emphases: Sequence[Emphasis]) -> tuple[Emphasis, ...]:
    """Return the emphases that an utterance with these words has."""
    if not words:
        return ()
    start, end = words[0].start, words[-1].end
    return tuple(each for each in emphases if each.start < end and start < each.end)


def refined_texts(utterances: Sequence[Utterance], count: int, split_text: bool) -> str | list[str]:
    """Return refined texts as scripts know them: one string of lines, or a list of texts."""
    if split_text and count:
        return "\n".join(without_placeholders(u.text) for u in utterances)
    texts: dict[int, list[str]] = {}
    for utterance in utterances:  # a pause divides a text into several
        texts.setdefault(utterance.text_index, []).append(without_placeholders(utterance.text))
    return [" ".join(texts.get(index, [])) for index in range(count)]
