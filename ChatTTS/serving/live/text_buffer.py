"""Split text that comes in pieces into utterances, each as soon as later text cannot change it."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from ...text.pauses import break_length
from ...text.splitter import (
    are_one_utterance,
    has_words,
    is_speakable,
    join_sentences,
    split_sentences,
)

_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# A line that was wrapped to some width continues if the next line begins with a small letter. The
# normalizer joins such lines.
_MAY_BE_WRAPPED = re.compile(r"\A[ \t]*\w.{30,}[a-z,][ \t]*")
_LINE_BEGINNING = re.compile(r"[ \t]*([\s\S])?")
# An open bracket may become a tag or a break, which is not a word.
_OPEN_TAG = re.compile(r"\[\w*$|<(?:b(?:r(?:e(?:a(?:k[^<>]*)?)?)?)?)?$")
# Whether a stop ended a sentence is known with the whole word behind it: "tom. N" may be a name,
# and "tom. No" is none.
_OPEN_WORD = re.compile(r"(?<=[.!?…。！？])[\"'’”)\]]*\s+\S*\Z")
# The splitter looks back at most this many characters to decide whether a full stop ends a
# sentence.
_LOOK_BACK = 64


class TextBuffer:
    """Collects text and returns the complete utterances, each as it was written.

    The utterances are those of ``split_utterances`` for the whole text, however the text was cut
    into pieces. There are two differences. Long utterances are not divided here, since the library
    divides the normalized text. Lines without words lead the next utterance instead of ending the
    one before, because that one was complete at the end of its line. The joined utterances are the
    text, except marks and white space after the last word.

    Args:
        max_characters: longest utterance that is joined from short sentences.
    """

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self._lead = ""  # complete lines without words
        self._returned = ""  # end of the text already returned from the first line of _pending
        self._pending = ""

    @property
    def pending(self) -> str:
        """The text that was not returned yet."""
        return self._lead + self._pending

    @property
    def waiting(self) -> int:
        """Number of characters that were not returned yet."""
        return len(self._lead) + len(self._pending)

    def push(self, text: str) -> list[str]:
        """Add text and return the complete utterances, with the white space before them."""
        self._pending += text
        return self._split_lines(is_all=False)

    def flush(self) -> list[str]:
        """Return the remaining utterances, as if the text ended here."""
        utterances = self._split_lines(is_all=True)
        if is_speakable(self._lead):
            utterances.append(self._lead)
        self.clear()
        return utterances

    def clear(self) -> None:
        """Drop all text."""
        self._lead = self._returned = self._pending = ""

    def _split_lines(self, *, is_all: bool) -> list[str]:
        utterances: list[str] = []
        while self._pending:
            end, is_whole = self._first_line(is_all=is_all)
            utterances += self._cut(end, is_whole=is_whole)
            if not is_whole:
                break
            self._returned = ""
        return utterances

    def _first_line(self, *, is_all: bool) -> tuple[int, bool]:
        """Return the length of the first line so far, and whether the line is complete."""
        begin = 0
        while match := _LINE_END.search(self._pending, begin):
            line = (self._returned + self._pending[: match.start()]).rpartition("\n")[2]
            first = _LINE_BEGINNING.match(self._pending, match.end())
            if not (match[0].endswith(("\n", "\r")) and _MAY_BE_WRAPPED.fullmatch(line) and first):
                return match.end(), True
            if first[1] is None and not is_all:
                return match.start(), False
            if first[1] is None or not "a" <= first[1] <= "z":
                return match.end(), True
            begin = match.end()
        return len(self._pending), is_all

    def _cut(self, end: int, *, is_whole: bool) -> list[str]:
        """Remove and return the complete utterances in the first ``end`` characters."""
        sentences, following = self._sentences(end, is_whole=is_whole)
        utterances: list[str] = []
        current = joined = ""  # one utterance, as it was written and as it is spoken
        for sentence in sentences:
            if self._are_two(joined, sentence):
                utterances.append(self._take(current))
                current = joined = ""
            current += sentence
            joined = join_sentences(joined, sentence)
        if is_whole and not has_words(joined):
            self._lead = self._take(current)
        elif is_whole or self._are_two(joined, _OPEN_WORD.sub("", _OPEN_TAG.sub("", following))):
            utterances.append(self._take(current))
        return utterances

    def _sentences(self, end: int, *, is_whole: bool) -> tuple[list[str], str]:
        """Return the sentences that have ended, and the text after them.

        Later text may still show that a sentence does not end there, until words follow. So the
        last sentence of an incomplete line counts as text after them.
        """
        line = self._pending[:end]
        flat = _LINE_END.sub(_blank, self._returned + line)
        known = len(self._returned)
        ends = [e - known for e in accumulate(map(len, split_sentences(flat))) if e > known]
        ends = [end + break_length(line[end:]) for end in ends]
        if not is_whole:
            ends = ends[:-1]
        cuts = [0, *ends]
        return [line[start:stop] for start, stop in pairwise(cuts)], line[cuts[-1] :]

    def _are_two(self, first: str, second: str) -> bool:
        """Return whether an utterance ends between them, even if ``second`` continues."""
        # Marks and tags belong to the words beside them. This test also keeps the time linear for
        # clients that send thousands of marks.
        if not (has_words(second) and has_words(first)):
            return False
        return not are_one_utterance(first, second, self._max_characters)

    def _take(self, text: str) -> str:
        """Remove ``text`` from the beginning of the pending text; return it after its lead."""
        returned = self._returned + text
        if len(returned) > _LOOK_BACK:
            # The first character of the line decides whether the line may be wrapped.
            line = returned.rpartition("\n")[2]
            first = line.lstrip(" \t")[:1] if len(line) > _LOOK_BACK else ""
            returned = first + returned[-_LOOK_BACK:]
        self._returned, self._pending = returned, self._pending[len(text) :]
        text, self._lead = self._lead + text, ""
        return text


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
