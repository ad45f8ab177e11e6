"""Attempts at a line: each number has other draws."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..audio.samples import Samples
from .line_store import SpokenLine
from .planned import PlannedLine, Reference

CUT_OFF = "the speech was cut off at its longest"
"""A fault of an utterance."""


@dataclass(frozen=True)
class Attempt:
    """One of the attempts at a line.

    Attributes:
        number: 0 for the draws of the line itself; each other one has draws of its own.
        sample: a sample prompt, as ``AttemptingVoice.sample`` returns it, that the line continues.
    """

    number: int = 0
    sample: Mapping[str, str] = field(default_factory=dict)

    def seed(self, seed: int) -> int:
        """Return the seed of the attempt, below 2**63, for that of the line."""
        if not self.number:
            return seed
        digest = hashlib.sha256(f"{seed} attempt {self.number}".encode()).digest()
        return int.from_bytes(digest[:8], "big") >> 1


FIRST = Attempt()


class AttemptingVoice(ABC):
    """A :class:`.line_speaker.LineVoice` that speaks a line more than once.

    Args:
        warn: called with each warning, which names its line; in any thread.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn

    def speak(self, planned: PlannedLine, stop: threading.Event) -> SpokenLine | None:
        """Return the speech of a line: see :class:`.line_speaker.LineVoice`."""
        spoken = self.attempt(planned, stop, FIRST)
        if spoken is not None:
            tell_faults(planned, spoken, self._warn)
        return spoken

    @abstractmethod
    def attempt(
        self, planned: PlannedLine, stop: threading.Event, which: Attempt
    ) -> SpokenLine | None:
        """Return an attempt at a line; ``None`` if it was stopped.

        Raises:
            ScriptError: the line cannot be spoken.
        """

    @abstractmethod
    def sounds(
        self, planned: PlannedLine, reference: Reference, stop: threading.Event
    ) -> list[tuple[Samples, str]] | None:
        """Return the sounds of a reference in the voice of a line, each with its spoken text.

        ``None`` if it was stopped.

        Raises:
            ScriptError: they cannot be spoken.
        """

    @abstractmethod
    def sample(self, sound: Samples, text: str) -> dict[str, str] | None:
        """Return parameters by which speech continues a sound; ``None`` if the model cannot."""


def tell_faults(planned: PlannedLine, spoken: SpokenLine, warn: Callable[[str], None]) -> None:
    """Warn of each fault of a line."""
    for part in spoken.parts:
        for fault in part.faults:
            warn(f"{planned.line.place}: {fault}")
