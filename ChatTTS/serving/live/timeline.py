"""Find which words of a run belong to the samples that were played."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ...pipeline.results import Fault, Word
from ...text.lexicon import LexiconUse

T = TypeVar("T", Word, Fault)

# Estimated speaking rate while no utterance of the run is complete: 14 characters a second.
_SAMPLES_PER_CHARACTER = 24_000 / 14
# This many samples may still be inside the encoder's filters, or be lost to rounding between two
# sample rates.
_TOLERANCE = 240
_MARKS = re.compile(r"[^\w\s\[({<“‘«（【《「『]*")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True)
class PlayedText:
    """The text that was played.

    Attributes:
        text: from the beginning of the run.
        is_exact: whether it ends where an utterance ends, or at a word whose end is known;
            otherwise the last words are estimated.
        last_word: the last word that was played to its end, of those whose times are known.
    """

    text: str
    is_exact: bool
    last_word: Word | None = None


@dataclass
class _UtteranceSpan:
    text: str
    begin: int
    length: int | None = None  # known once the whole utterance is generated
    words: list[Word] = field(default_factory=list)  # with times and characters of the run


class Timeline:
    """The utterances of a run and the position at which each begins, in samples at 24 kHz.

    Of an utterance that was played in part, a proportional share of its characters counts as
    played, rounded down to the end of a word. The share is the played samples divided by the
    utterance's length. The length is known once the utterance is generated to its end. Until then
    it is estimated from the samples per character of the earlier utterances. In the first
    utterance the estimate is 14 characters a second. Where the words of the utterance are known,
    they replace the estimate up to the last of them.
    """

    def __init__(self) -> None:
        self._spans: list[_UtteranceSpan] = []

    @property
    def text(self) -> str:
        """The text of all utterances."""
        return "".join(span.text for span in self._spans)

    def begin(self, text: str, position: int) -> None:
        """Add an utterance that begins at ``position``."""
        self._spans.append(_UtteranceSpan(text, position))

    def end(self, length: int) -> None:
        """Set the length of the utterance that was added last."""
        self._spans[-1].length = length

    def add_words(self, words: Sequence[Word]) -> list[Word]:
        """Add words of the utterance that was added last, in order.

        Args:
            words: their times and characters count from the beginning of the utterance.

        Returns:
            The words with times and characters of the run.
        """
        if not words:
            return []
        moved = [self.placed(word) for word in words]
        self._spans[-1].words += moved
        return moved

    def placed(self, part: T) -> T:
        """Return a part of the utterance that was added last, with its place in the run."""
        before = self._characters_before
        return replace(
            part.shifted(self._spans[-1].begin),
            start_character=before + part.start_character,
            end_character=before + part.end_character,
        )

    def placed_uses(self, uses: Iterable[LexiconUse]) -> list[LexiconUse]:
        """Return the uses of a lexicon in the utterance that was added last, in the run's text."""
        before = self._characters_before
        return [
            replace(
                use,
                start_character=before + use.start_character,
                end_character=before + use.end_character,
            )
            for use in uses
        ]

    @property
    def _characters_before(self) -> int:
        """The characters of the run before the utterance that was added last."""
        return len(self.text) - len(self._spans[-1].text)

    def text_until(self, position: int) -> PlayedText:
        """Return the text that was played when playback stopped at ``position``."""
        text = ""
        last: Word | None = None
        for span in self._spans:
            played = position - span.begin
            if played <= 0:
                break
            over = [w for w in span.words if w.end_sample <= position + _TOLERANCE]
            heard = [w for w in over if w.end_sample > w.start_sample]
            last = heard[-1] if heard else last
            if span.length is None or played + _TOLERANCE < span.length:
                known = _with_marks(span.text, heard[-1].end_character - len(text)) if heard else ""
                # Words are final in order: none is missing before a known one, or in the whole.
                if len(over) < len(span.words) or (over and span.length is not None):
                    return PlayedText(text + known, True, last)
                words = _words(span.text, played / self._length(span, played))
                return PlayedText(text + max(known, words, key=len), False, last)
            text += span.text
        return PlayedText(text, True, last)

    def _length(self, span: _UtteranceSpan, played: int) -> float:
        if span.length is not None:
            return span.length
        known = [(len(s.text), s.length) for s in self._spans if s.length is not None]
        characters = sum(count for count, _ in known)
        samples = sum(length for _, length in known)
        each = samples / characters if characters and samples else _SAMPLES_PER_CHARACTER
        return max(each * len(span.text), played)


def _with_marks(text: str, end: int) -> str:
    """Return the text up to the end of a word, with the marks directly behind it."""
    match = _MARKS.match(text, end)
    return text[: match.end() if match else end]


def _words(text: str, share: float) -> str:
    """Return the whole words within the first ``share`` (0 to 1) of a text."""
    limit = share * len(text)
    ends = [match.end() for match in _WORD.finditer(text) if match.end() <= limit]
    return text[: ends[-1]] if ends else ""
