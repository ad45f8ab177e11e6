"""Alignments: lists of characters with their times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...requests.characters import TimedCharacter
from ...requests.words import DIGITS

_MILLISECONDS = 1000


def alignment_seconds(characters: Sequence[TimedCharacter]) -> dict[str, Any] | None:
    """Return an alignment as HTTP tells it, with seconds of the answer's sound."""
    if not characters:
        return None
    return {
        "characters": [character.text for character in characters],
        "character_start_times_seconds": [round(c.start, DIGITS) for c in characters],
        "character_end_times_seconds": [round(c.end, DIGITS) for c in characters],
    }


class SocketAlignment:
    """Alignments as sockets tell them, in milliseconds.

    Clients add the times of one message to the end of the message before, so those of each message
    begin at 0. With ``sync_alignment`` they count from the beginning of the context.

    Args:
        is_absolute: whether they count from the beginning of the context.
    """

    def __init__(self, *, is_absolute: bool) -> None:
        self._is_absolute = is_absolute
        self._told_until = 0

    def of(self, characters: Sequence[TimedCharacter], offset: float) -> dict[str, Any] | None:
        """Return the alignment of the next characters.

        Args:
            offset: seconds of the context's sound before their run.
        """
        if not characters:
            return None
        # Rounded from the beginning of the context, so that sums of many messages stay exact.
        starts = [_milliseconds(offset + character.start) for character in characters]
        ends = [_milliseconds(offset + character.end) for character in characters]
        base = 0 if self._is_absolute else self._told_until
        self._told_until = ends[-1]
        return {
            "chars": [character.text for character in characters],
            "charStartTimesMs": [start - base for start in starts],
            "charDurationsMs": [end - start for start, end in zip(starts, ends, strict=True)],
        }


def _milliseconds(seconds: float) -> int:
    return round(seconds * _MILLISECONDS)
