"""What any interface of the server asks for, checked once."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from enum import IntEnum

from .errors import BadRequestError

SLOWEST, FASTEST = 0.25, 4.0  # factors of the tempo
_SEED_LIMIT = 2**63
_ID_LENGTH = 12


class Priority(IntEnum):
    """Who comes first: somebody who listens, before work that nobody waits for."""

    INTERACTIVE = 0
    BATCH = 1

    @classmethod
    def parse(cls, name: str) -> Priority:
        """``interactive`` or ``batch``.

        Raises:
            BadRequestError: another name.
        """
        try:
            return cls[name.upper()]
        except KeyError:
            raise BadRequestError(
                f"there is no priority {name!r}: use interactive or batch", param="priority"
            ) from None


def new_request_id() -> str:
    """An id that nobody can guess."""
    return f"req-{secrets.token_hex(_ID_LENGTH)}"


def new_seed() -> int:
    """A seed for a request that names none."""
    return secrets.randbelow(2**31)


@dataclass(frozen=True)
class SpeechRequest:
    """One text to be spoken.

    Attributes:
        text: what to speak; may hold control tags.
        voice: a name that the server knows; its default voice without one.
        sample, transcript: a sample prompt string and what it says, in place of a voice.
        speed: factor of the tempo; the samples of the model are those of 1, whoever encodes them
            applies it.
        seed: of all draws.
        is_seeded: whether the client named it, and so may ask for the same speech again.
        temperature, top_p, top_k: of the draws; the voice's own without them.
        language: ``en`` or ``zh``; found out from the text without one.
        refine: whether the text is refined first.
        low_latency: whether the sound may begin before its first samples are final.
        priority: of the queue.
        max_wait: seconds that it may wait for its turn; the server's limit without one.
        client: who asks, for fairness between clients.
        request_id: what it is called in logs and answers.
        first_utterance: number of the text's first utterance where it continues an earlier text.
        continues: whether it belongs to a text that was taken before, so that a server that shuts
            down still speaks it.

    Raises:
        BadRequestError: a value that cannot be used.
    """

    text: str
    voice: str | None = None
    sample: str | None = None
    transcript: str | None = None
    speed: float = 1.0
    seed: int = field(default_factory=new_seed)
    is_seeded: bool = True
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    language: str | None = None
    refine: bool = False
    low_latency: bool = False
    priority: Priority = Priority.INTERACTIVE
    max_wait: float | None = None
    client: str = ""
    request_id: str = field(default_factory=new_request_id)
    first_utterance: int = 0
    continues: bool = False

    def __post_init__(self) -> None:
        self._require("input", bool(self.text.strip()), "a text to speak")
        self._require("speed", SLOWEST <= self.speed <= FASTEST, f"{SLOWEST} to {FASTEST}")
        self._require("seed", -_SEED_LIMIT <= self.seed < _SEED_LIMIT, "a number of 64 bits")
        if self.temperature is not None:
            self._require("temperature", 0 <= self.temperature <= 2, "0 to 2")
        if self.top_p is not None:
            self._require("top_p", 0 < self.top_p <= 1, "above 0 and at most 1")
        if self.top_k is not None:
            fits = 1 <= self.top_k < _SEED_LIMIT
            self._require("top_k", fits, "at least 1, and a number of 64 bits")
        if self.language is not None:
            self._require("language", self.language in ("en", "zh"), "en or zh")
        if self.max_wait is not None:
            finite = math.isfinite(self.max_wait) and self.max_wait >= 0
            self._require("max_wait", finite, "seconds, 0 or more")
        both = self.sample is not None and self.voice is not None
        self._require("voice", not both, "left out where a sample says who speaks")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise BadRequestError(f"{name} must be {rule}", param=name)
