"""Find documents of SSML in text that comes in pieces, and split the text beside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from ...text.documents import is_ssml
from .text_buffer import TextBuffer

_DECLARATION, _OPENING = "<?xml", "<speak"
_END = re.compile(r"</speak\s*>", re.IGNORECASE)
# Parts of a document in which no tag ends it; each ends at its own mark.
_ENCLOSED = (("<!--", "-->"), ("<![CDATA[", "]]>"))


@dataclass(frozen=True)
class TextPart:
    """A part of a text that is spoken as one.

    Attributes:
        text: an utterance as it was written, or a document.
        is_document: whether it is a document of SSML, perhaps a damaged one.
    """

    text: str
    is_document: bool


class _State(Enum):
    UNDECIDED = auto()  # what has come may be the beginning of a document
    DOCUMENT = auto()
    PLAIN = auto()  # up to the next flush


class DocumentBuffer:
    """Collects text, and returns its documents and utterances as soon as they are complete.

    A text is a document if it begins with ``<speak``, at the beginning, after a flush or after
    another document. Other text is divided by a :class:`.text_buffer.TextBuffer`.

    Args:
        max_characters: longest utterance that is joined from short sentences.
    """

    def __init__(self, max_characters: int) -> None:
        self._plain = TextBuffer(max_characters)
        self._state = _State.UNDECIDED
        self._held = ""  # of a text that is not plain
        self._scanned = 0  # of a document: its end is not before this character

    @property
    def pending(self) -> str:
        """The text that was not returned yet."""
        return self._held + self._plain.pending

    @property
    def waiting(self) -> int:
        """Number of characters that were not returned yet."""
        return len(self._held) + self._plain.waiting

    @property
    def is_in_document(self) -> bool:
        """Return whether a document has begun whose end has not come."""
        return self._state is _State.DOCUMENT

    def push(self, text: str) -> list[TextPart]:
        """Add text and return what is complete."""
        parts: list[TextPart] = []
        while text:
            if self._state is _State.PLAIN:
                return parts + _utterances(self._plain.push(text))
            self._held += text
            if self._state is _State.UNDECIDED:
                self._state = _kind(self._held)
            if self._state is _State.UNDECIDED:
                break
            if self._state is _State.PLAIN:
                text, self._held = self._held, ""
                continue
            end = self._end()
            if end is None:
                break
            document, text = self._held[:end], self._held[end:]
            parts.append(TextPart(document, True))
            self._forget_document()
        return parts

    def flush(self) -> list[TextPart]:
        """Return the rest, as if the text ended here; a document may be incomplete."""
        held, state = self._held, self._state
        self._forget_document()
        if state is _State.DOCUMENT:
            return [TextPart(held, True)]
        return _utterances(self._plain.push(held) + self._plain.flush())

    def clear(self) -> None:
        """Forget all text."""
        self._forget_document()
        self._plain.clear()

    def _forget_document(self) -> None:
        self._state, self._held, self._scanned = _State.UNDECIDED, "", 0

    def _end(self) -> int | None:
        """Return the end of the document; ``None`` if it has not come yet."""
        held, position = self._held, self._scanned
        while (start := held.find("<", position)) >= 0:
            self._scanned = start
            closing = next((end for begin, end in _ENCLOSED if held.startswith(begin, start)), ">")
            end = held.find(closing, start)
            if end < 0:  # also where more text may show what begins here
                return None
            if match := _END.match(held, start):
                return match.end()
            # A "less than" that was not written as an entity may stand before the end.
            position = start + 1 if closing == ">" else end + len(closing)
        self._scanned = len(held)
        return None


def _kind(text: str) -> _State:
    """Return the kind of a text, as far as its beginning tells."""
    beginning = text.lstrip()
    if beginning[: len(_DECLARATION)] == _DECLARATION[: len(beginning)]:
        beginning = beginning.partition(">")[2].lstrip()
    if is_ssml(text):
        return _State.DOCUMENT
    is_open = beginning.lower() == _OPENING[: len(beginning)]
    return _State.UNDECIDED if is_open else _State.PLAIN


def _utterances(texts: list[str]) -> list[TextPart]:
    return [TextPart(text, False) for text in texts]
