"""The form of a text that a speech pass reads instead of letters, and what makes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class SpokenForm:
    """A text as the speech pass reads it.

    Attributes:
        text: with a token for each symbol, such as ``<h><ə><l><ˈ><O>[laugh]``.
        origins: for each character of it, start and end in the original text of what it speaks;
            empty where it speaks no character of it.
    """

    text: str
    origins: tuple[tuple[int, int], ...]


class FrontEnd(Protocol):
    """Turns normalized texts into what a speech pass reads. Threads may share one."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens of spoken forms; control tags, which stay, do not count."""

    def spoken(self, text: str) -> SpokenForm:
        """Return the spoken form of a text; its control tags are unchanged.

        Raises:
            TextError: a pronunciation in the text cannot be read.
        """

    def knows(self, character: str) -> bool:
        """Return whether a character is spoken, and not passed over."""
