"""The whole way of a text to the utterances that are spoken one by one."""

from __future__ import annotations

from ..errors import TextError
from .normalizer import Normalizer
from .punctuation import end_sentence, join_lines
from .splitter import is_speakable, split_utterances


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
        TextError: nothing speakable is left, or ``lang`` is not known.
    """
    if do_text_normalization:
        lines = normalizer.lines(text, do_homophone_replacement, lang)
        pieces = (
            split_utterances("\n".join(lines), max_characters)
            if split_text
            else [join_lines(lines)]
        )
        utterances = [end_sentence(piece) for piece in pieces]
    else:
        pieces = split_utterances(text, max_characters) if split_text else [text]
        utterances = [normalizer(piece, False, do_homophone_replacement, lang) for piece in pieces]
    utterances = [utterance for utterance in utterances if is_speakable(utterance)]
    if not utterances:
        raise TextError(
            f"nothing to speak is left of the text {_beginning(text)!r}; it needs words"
        )
    return utterances


def _beginning(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."
