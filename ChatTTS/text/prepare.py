"""From a text to its utterances, which are spoken one by one."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from ..errors import NothingToSpeakError
from .characters import warn_of_lost_letters
from .normalizer import Normalizer
from .pronunciation.placeholders import RANGE
from .punctuation import end_sentence, join_lines
from .splitter import is_speakable, split_utterances
from .tags import map_plain, without_tags

logger = logging.getLogger(__name__)

# A longer run of letters is no word but a key, an address or an encoded image. Chinese, which has
# no spaces, does not count, nor do the placeholders of pronunciations.
_LONGEST_WORD = 100
_SHOWN = 40  # characters of such a word
_ENDLESS = re.compile(rf"[^\W_\u3040-\u30ff\u3400-\u9fff{RANGE}]{{{_LONGEST_WORD + 1},}}")


@dataclass(frozen=True)
class Prepared:
    """The utterances of a text.

    Attributes:
        utterances: in order; none where the text has nothing to speak.
        left_out: what the voice cannot speak, each once: letters and digits as they are read,
            symbols, and the beginnings of words that are too long.
    """

    utterances: tuple[str, ...]
    left_out: tuple[str, ...]


def prepare(
    text: str,
    normalizer: Normalizer,
    *,
    lang: str | None = None,
    do_text_normalization: bool = True,
    do_homophone_replacement: bool = True,
    split_text: bool = True,
    max_characters: int = 200,
) -> list[str]:
    """Return the normalized utterances of ``text``, in order; without ``split_text``, just one.

    With normalization, lines are normalized before they are split. So ``max_characters`` bounds the
    spoken text, and the stops of abbreviations and decimals are gone. Each utterance ends in
    closing punctuation. Without normalization, the written text is split first, since the published
    rule drops "?" and line ends. A warning names what is left out.

    Raises:
        NothingToSpeakError: the text has nothing to speak.
    """
    found = prepared(
        text,
        normalizer,
        lang=lang,
        do_text_normalization=do_text_normalization,
        do_homophone_replacement=do_homophone_replacement,
        split_text=split_text,
        max_characters=max_characters,
    )
    warn_of_lost_letters(found.left_out)
    if not found.utterances:
        raise NothingToSpeakError(text, found.left_out, normalizer.languages)
    return list(found.utterances)


def prepared(
    text: str,
    normalizer: Normalizer,
    *,
    lang: str | None = None,
    do_text_normalization: bool = True,
    do_homophone_replacement: bool = True,
    split_text: bool = True,
    max_characters: int = 200,
) -> Prepared:
    """Return what :func:`prepare` returns, and what is left out, without an error."""
    endless = (f"{word[:_SHOWN]}..." for word in _ENDLESS.findall(without_tags(text)))
    words = map_plain(text, _without_endless_words)
    if do_text_normalization:
        read = normalizer.read(words, do_homophone_replacement, lang)
        lines = read.lines
        pieces = (
            split_utterances("\n".join(lines), max_characters)
            if split_text
            else [join_lines(lines)]
        )
        utterances, lost = [end_sentence(piece) for piece in pieces], read.left_out
    else:
        pieces = split_utterances(words, max_characters) if split_text else [words]
        reads = [normalizer.read_published(piece, do_homophone_replacement) for piece in pieces]
        utterances = ["".join(read.lines) for read in reads]
        lost = normalizer.read_published(words, do_homophone_replacement).left_out
    spoken = tuple(utterance for utterance in utterances if is_speakable(utterance))
    return Prepared(spoken, tuple(dict.fromkeys((*lost, *endless))))


def _without_endless_words(text: str) -> str:
    """Return a piece between tags without overlong words, with a warning for each."""
    for word in _ENDLESS.findall(text):
        logger.warning(
            "%r... has %d letters, which is not a word; left out", word[:_SHOWN], len(word)
        )
    return _ENDLESS.sub(" ", text)
