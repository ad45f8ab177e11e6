"""Spaces between sentences that a client sends without them."""

from __future__ import annotations

_ENDS = (".", "!", "?", "…", ":", ";")


class TextSpacing:
    """Puts a space between two texts, where one ends a sentence and the next begins with a letter.

    Clients that collect sentences strip them. Texts of a language model, which are parts of words,
    have their own spaces and do not end a sentence within a word.
    """

    def __init__(self) -> None:
        self._end = ""

    def spaced(self, text: str) -> str:
        """Return the next text, with a space before it if it needs one."""
        if self._end.endswith(_ENDS) and text[:1].isalpha() and text[0].isascii():
            text_with_space = f" {text}"
        else:
            text_with_space = text
        self._end = text[-1:] or self._end
        return text_with_space

    def reset(self) -> None:
        """Forget the text before the next one."""
        self._end = ""
