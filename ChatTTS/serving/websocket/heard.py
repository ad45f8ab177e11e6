"""Which of a run's words belong to the samples that were heard."""

from __future__ import annotations

import re
from dataclasses import dataclass

# What a line of text takes in speech, before any of this run is there to tell.
_SAMPLES_PER_CHARACTER = 24_000 / 14
# So much may lie in the filters of the encoder, or between the whole samples of two rates.
_TOLERANCE = 240
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\s\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True)
class Heard:
    """Text that was heard.

    Attributes:
        text: from the run's beginning.
        is_exact: whether it ends where an utterance ends; otherwise the last words are estimated.
    """

    text: str
    is_exact: bool


@dataclass
class _Entry:
    text: str
    begin: int
    length: int | None = None  # known when all of it was generated


class Timeline:
    """The utterances of a run and where each begins, in samples at 24 kHz.

    An utterance that was heard in part counts by proportion: of its samples to its length, and of
    its characters likewise, down to the end of a word. Its length is known if it was generated to
    its end. Otherwise it is estimated, by the samples a character took in the utterances before
    it, or by 14 characters a second in the first one.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    @property
    def text(self) -> str:
        """Of all utterances."""
        return "".join(entry.text for entry in self._entries)

    def begin(self, text: str, position: int) -> None:
        """An utterance begins."""
        self._entries.append(_Entry(text, position))

    def end(self, length: int) -> None:
        """So long is the utterance that began last."""
        self._entries[-1].length = length

    def heard_until(self, position: int) -> Heard:
        """What was heard when the sound was interrupted at ``position``."""
        text = ""
        for entry in self._entries:
            heard = position - entry.begin
            if heard <= 0:
                break
            if entry.length is None or heard + _TOLERANCE < entry.length:
                return Heard(text + _words(entry.text, heard / self._length(entry, heard)), False)
            text += entry.text
        return Heard(text, True)

    def _length(self, entry: _Entry, heard: int) -> float:
        if entry.length is not None:
            return entry.length
        known = [(len(e.text), e.length) for e in self._entries if e.length is not None]
        characters = sum(count for count, _ in known)
        samples = sum(length for _, length in known)
        each = samples / characters if characters and samples else _SAMPLES_PER_CHARACTER
        return max(each * len(entry.text), heard)


def _words(text: str, share: float) -> str:
    """The words within the first ``share`` of a text."""
    limit = share * len(text)
    ends = [match.end() for match in _WORD.finditer(text) if match.end() <= limit]
    return text[: ends[-1]] if ends else ""
