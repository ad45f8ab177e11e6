"""The whole way of a text to the utterances that are spoken one by one."""

from __future__ import annotations

import logging
import re

from ..errors import NothingToSpeakError
from .normalizer import Normalizer
from .punctuation import end_sentence, join_lines
from .splitter import is_speakable, split_utterances
from .tags import map_plain

logger = logging.getLogger(__name__)

# No language has such words: a key, an address, an image in letters. Chinese has no spaces.
_LONGEST_WORD = 100
_ENDLESS = re.compile(rf"[^\W_\u3040-\u30ff\u3400-\u9fff]{{{_LONGEST_WORD + 1},}}")


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
    """Normalised utterances of ``text``, in order; with ``split_text`` off, just one.

    With normalisation, lines are read out before they are split: what is measured against
    ``max_characters`` is then what is spoken, the stops of abbreviations and decimals are gone,
    and each utterance ends in closing punctuation. Without it the written text is split first,
    since the published rule that follows drops "?" and line ends.

    Raises:
        NothingToSpeakError: nothing speakable is left.
    """
    words = map_plain(text, _without_endless_words)
    if do_text_normalization:
        lines = normalizer.lines(words, do_homophone_replacement, lang)
        pieces = (
            split_utterances("\n".join(lines), max_characters)
            if split_text
            else [join_lines(lines)]
        )
        utterances = [end_sentence(piece) for piece in pieces]
    else:
        pieces = split_utterances(words, max_characters) if split_text else [words]
        utterances = [normalizer(piece, False, do_homophone_replacement, lang) for piece in pieces]
    utterances = [utterance for utterance in utterances if is_speakable(utterance)]
    if not utterances:
        raise NothingToSpeakError(text)
    return utterances


def _without_endless_words(text: str) -> str:
    """Return a piece between tags without what is too long for a word, and name that."""
    for word in _ENDLESS.findall(text):
        logger.warning("%r... has %d letters, which is no word; left out", word[:40], len(word))
    return _ENDLESS.sub(" ", text)
