"""Attempts at a line: each number has other draws."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from ..audio.samples import Samples
from .kept_lines import SpokenLine
from .planned import PlannedLine, Reference

CUT_OFF = "the speech was cut off at its longest"
"""A fault of an utterance."""


class AttemptingVoice(Protocol):
    """Speaks a line more than once; called in several threads at once."""

    def attempt(
        self,
        planned: PlannedLine,
        stop: threading.Event,
        number: int = 0,
        sample: Mapping[str, str] | None = None,
    ) -> SpokenLine | None:
        """Return an attempt at a line; ``None`` if it was stopped.

        Args:
            number: 0 for the draws of the line itself.
            sample: a sample prompt, as :meth:`sample` returns it, that the line continues.

        Raises:
            ScriptError: the line cannot be spoken.
        """

    def sounds(
        self, planned: PlannedLine, reference: Reference, stop: threading.Event
    ) -> list[tuple[Samples, str]] | None:
        """Return the sounds of a reference in the voice of a line, each with its spoken text.

        ``None`` if it was stopped.

        Raises:
            ScriptError: they cannot be spoken.
        """

    def sample(self, sound: Samples, text: str) -> dict[str, str] | None:
        """Return parameters by which speech continues a sound; ``None`` if the model cannot."""


def another_seed(seed: int, number: int) -> int:
    """Return the seed of an attempt, below 2**63; that of the line itself for number 0."""
    if not number:
        return seed
    digest = hashlib.sha256(f"{seed} attempt {number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def tell_faults(planned: PlannedLine, spoken: SpokenLine, warn: Callable[[str], None]) -> None:
    """Warn of each fault of a line."""
    for part in spoken.parts:
        for fault in part.faults:
            warn(f"{planned.line.place}: {fault}")
