"""From a text to its utterances, which are spoken one by one."""

from __future__ import annotations

import logging
import re

from ..errors import NothingToSpeakError
from .normalizer import Normalizer
from .punctuation import end_sentence, join_lines
from .splitter import is_speakable, split_utterances
from .tags import map_plain

logger = logging.getLogger(__name__)

# A longer run of letters is no word but a key, an address or an encoded image. Chinese, which has
# no spaces, does not count.
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
    """Return the normalized utterances of ``text``, in order; without ``split_text``, just one.

    With normalization, lines are normalized before they are split. So ``max_characters`` bounds the
    spoken text, and the stops of abbreviations and decimals are gone. Each utterance ends in
    closing punctuation. Without normalization, the written text is split first, since the published
    rule drops "?" and line ends.

    Raises:
        NothingToSpeakError: the text has nothing to speak.
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
    """Return a piece between tags without overlong words, with a warning for each."""
    for word in _ENDLESS.findall(text):
        logger.warning("%r... has %d letters, which is no word; left out", word[:40], len(word))
    return _ENDLESS.sub(" ", text)
