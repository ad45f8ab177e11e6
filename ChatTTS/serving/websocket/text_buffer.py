"""Text that comes in pieces, cut into utterances as soon as nothing can change them."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise

from ...text.splitter import (
    are_one_utterance,
    has_words,
    is_speakable,
    join_sentences,
    split_sentences,
)

_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
# A line that was wrapped to some width goes on where the next one begins with a small letter; the
# normalizer joins such lines.
_MAY_BE_WRAPPED = re.compile(r"[ \t]*\w.{30,}[a-z,][ \t]*")
_BEGINNING = re.compile(r"[ \t]*([\s\S])?")
# A bracket may become a tag, which is no word.
_TAG_BEGINS = re.compile(r"\[\w*$")
# The splitter looks back no farther to see whether a full stop ends a sentence.
_LOOK_BACK = 64


class TextBuffer:
    """Gathers text and gives the utterances that are complete, each as it was written.

    They are those into which ``split_utterances`` cuts the whole text, whatever the pieces in which
    it came; long ones are not divided, since that is done to what is spoken, not to what is
    written. Lines without words are an exception: they lead the utterance after them, since the one
    before them was complete at its line's end. Joined, the utterances are the text, but for marks
    and white space behind the last word.

    Args:
        max_characters: of an utterance that is joined from short sentences.
    """

    def __init__(self, max_characters: int) -> None:
        self._most = max_characters
        self._lead = ""  # complete lines without words
        self._seen = ""  # the end of what was given of the line that begins ``_rest``
        self._rest = ""

    @property
    def waiting(self) -> int:
        """Characters that are here."""
        return len(self._lead) + len(self._rest)

    def push(self, text: str) -> list[str]:
        """The utterances that are complete now; white space before them stays with them."""
        self._rest += text
        return self._lines(is_all=False)

    def flush(self) -> list[str]:
        """All that is left, as if the text ended here."""
        given = self._lines(is_all=True)
        if is_speakable(self._lead):
            given.append(self._lead)
        self.clear()
        return given

    def clear(self) -> None:
        """Forget all that is here."""
        self._lead = self._seen = self._rest = ""

    def _lines(self, *, is_all: bool) -> list[str]:
        given: list[str] = []
        while self._rest:
            end, is_whole = self._line(is_all=is_all)
            given += self._cut(end, is_whole=is_whole)
            if not is_whole:
                break
            self._seen = ""
        return given

    def _line(self, *, is_all: bool) -> tuple[int, bool]:
        """How far the first line goes, and whether it ends there."""
        begin = 0
        while match := _LINE_END.search(self._rest, begin):
            line = (self._seen + self._rest[: match.start()]).rpartition("\n")[2]
            first = _BEGINNING.match(self._rest, match.end())
            if not (match[0].endswith(("\n", "\r")) and _MAY_BE_WRAPPED.fullmatch(line) and first):
                return match.end(), True
            if first[1] is None and not is_all:
                return match.start(), False
            if first[1] is None or not "a" <= first[1] <= "z":
                return match.end(), True
            begin = match.end()
        return len(self._rest), is_all

    def _cut(self, end: int, *, is_whole: bool) -> list[str]:
        """The utterances in the first ``end`` characters; what is not complete stays."""
        sentences, following = self._sentences(end, is_whole=is_whole)
        given: list[str] = []
        current = joined = ""  # as it was written, and as it is spoken
        for sentence in sentences:
            if self._are_two(joined, sentence):
                given.append(self._take(current))
                current = joined = ""
            current += sentence
            joined = join_sentences(joined, sentence)
        if is_whole and not has_words(joined):
            self._lead = self._take(current)
        elif is_whole or self._are_two(joined, _TAG_BEGINS.sub("", following)):
            given.append(self._take(current))
        return given

    def _sentences(self, end: int, *, is_whole: bool) -> tuple[list[str], str]:
        """The sentences that have ended, and what follows them.

        An end may still prove to be none, or not yet, as long as no words follow it; nothing is
        given before that.
        """
        line = self._rest[:end]
        flat = _LINE_END.sub(_blank, self._seen + line)
        known = len(self._seen)
        ends = [e - known for e in accumulate(map(len, split_sentences(flat))) if e > known]
        if not is_whole:
            ends = ends[:-1]
        cuts = [0, *ends]
        return [line[start:stop] for start, stop in pairwise(cuts)], line[cuts[-1] :]

    def _are_two(self, first: str, second: str) -> bool:
        """Whether an utterance ends between these, also if ``second`` goes on."""
        # Marks and tags go with what has words; a client may send thousands of them.
        if not (has_words(second) and has_words(first)):
            return False
        return not are_one_utterance(first, second, self._most)

    def _take(self, text: str) -> str:
        """The beginning of the rest, with what leads it."""
        seen = self._seen + text
        if len(seen) > _LOOK_BACK:
            # The line's first character tells whether it may be wrapped.
            line = seen.rpartition("\n")[2]
            first = line.lstrip(" \t")[:1] if len(line) > _LOOK_BACK else ""
            seen = first + seen[-_LOOK_BACK:]
        self._seen, self._rest = seen, self._rest[len(text) :]
        text, self._lead = self._lead + text, ""
        return text


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])
