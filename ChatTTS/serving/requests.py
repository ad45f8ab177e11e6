"""Requests for speech, from any interface, checked when they are created."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from ..audio.tempo import FASTEST, SLOWEST
from ..errors import ConfigError, TextError
from ..text.lexicon import Lexicon
from ..text.pauses import LONGEST_PAUSE, total_pause
from .errors import BadRequestError
from .segments import Segment

SEED_LIMIT = 2**63
GUARDS = ("retry", "report", "none")
"""Values of the field ``guard`` of every interface."""
_ID_LENGTH = 12
# A header has at most some kB. A character may take 12 bytes in it.
_SHOWN_WARNINGS, _LONGEST_WARNING = 5, 100


class Priority(IntEnum):
    """Class in the queue: interactive requests go before batch requests."""

    INTERACTIVE = 0
    BATCH = 1

    @classmethod
    def parse(cls, name: str) -> Priority:
        """Return the priority of a name.

        Raises:
            BadRequestError: the name is neither ``interactive`` nor ``batch``.
        """
        try:
            return cls[name.upper()]
        except KeyError:
            raise BadRequestError(
                f"unknown priority {name!r}: use interactive or batch", param="priority"
            ) from None


def new_request_id() -> str:
    """Return an id that cannot be guessed."""
    return f"req-{secrets.token_hex(_ID_LENGTH)}"


def new_seed() -> int:
    """Return a random seed, for a request without one."""
    return secrets.randbelow(2**31)


def parse_lexicon(given: Any) -> Lexicon:
    """Return the lexicon of a field of JSON; ``None`` is an empty one.

    Raises:
        BadRequestError: it is no object of words and sayings, or an entry cannot be used.
    """
    try:
        return Lexicon.of(given)
    except ConfigError as error:
        raise BadRequestError(str(error), param="lexicon") from error


@dataclass(frozen=True)
class SpeechRequest:
    """One text to be spoken.

    Attributes:
        text: what to speak; may contain control tags.
        voice: name of a voice; ``None`` means the server's default voice.
        sample, transcript: a sample prompt string and its transcript, in place of a voice.
        adapter: name of a loaded adapter that speaks, in place of the voice's own; ``base`` for the
            checkpoint alone.
        speed: factor of the tempo. The encoder applies it; the model always speaks at 1.
        seed: of all random draws.
        is_seeded: whether the client chose the seed, and so may repeat the request.
        temperature, top_p, top_k: of the sampling; ``None`` means the defaults of the voice.
        language: ``en`` or ``zh``; ``None`` detects it from the text.
        refine: whether to run the refine pass first.
        refine_tags: control tags of that pass; empty means the defaults of the voice.
        tags: control tags of the speech pass, such as ``[speed_4]``; empty as above.
        low_latency: whether audio may begin before its first samples are final.
        word_times: whether the pieces have their words, with times.
        guard: ``report`` finds faults of the speech, ``retry`` also speaks faulty utterances again;
            see ``Chat.stream``.
        lexicon: the client's words and their sayings.
        priority: class in the queue.
        max_wait: seconds that it may wait for its turn; ``None`` means the server's limit.
        client: name of the client, for fairness between clients.
        request_id: its name in logs and answers.
        first_utterance: index of the text's first utterance; above 0 if the text continues an
            earlier one.
        reads_ssml: whether a text that begins with ``<speak`` is a document of SSML.
        strict: whether what would be left out of SSML is an error.
        segments: the parts of an SSML text, which ``text`` has as lines; empty for other texts.
        warnings: what was left out of the SSML.
        continues: whether it belongs to a text that was accepted before; then a server that shuts
            down still speaks it.
        may_be_silent: whether a text without letters, such as ``**`` or an emoji, is a short
            silence; otherwise it is an error.

    Raises:
        BadRequestError: a value is invalid.
    """

    text: str
    voice: str | None = None
    sample: str | None = None
    transcript: str | None = None
    adapter: str | None = None
    speed: float = 1.0
    seed: int = field(default_factory=new_seed)
    is_seeded: bool = True
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    language: str | None = None
    refine: bool = False
    refine_tags: str = ""
    tags: str = ""
    low_latency: bool = False
    word_times: bool = False
    guard: str | None = None
    lexicon: Lexicon = field(default_factory=Lexicon)
    priority: Priority = Priority.INTERACTIVE
    max_wait: float | None = None
    client: str = ""
    request_id: str = field(default_factory=new_request_id)
    first_utterance: int = 0
    reads_ssml: bool = True
    strict: bool = False
    segments: tuple[Segment, ...] = ()
    warnings: tuple[str, ...] = ()
    continues: bool = False
    may_be_silent: bool = False

    def __post_init__(self) -> None:
        self._require("input", bool(self.text.strip()), "a text to speak")
        self._require("speed", SLOWEST <= self.speed <= FASTEST, f"{SLOWEST} to {FASTEST}")
        self._require("seed", -SEED_LIMIT <= self.seed < SEED_LIMIT, "a number of 64 bits")
        if self.temperature is not None:
            self._require("temperature", 0 <= self.temperature <= 2, "0 to 2")
        if self.top_p is not None:
            self._require("top_p", 0 < self.top_p <= 1, "above 0 and at most 1")
        if self.top_k is not None:
            fits = 1 <= self.top_k < SEED_LIMIT
            self._require("top_k", fits, "at least 1, and a number of 64 bits")
        if self.language is not None:
            self._require("language", self.language in ("en", "zh"), "en or zh")
        if self.max_wait is not None:
            finite = math.isfinite(self.max_wait) and self.max_wait >= 0
            self._require("max_wait", finite, "seconds, 0 or more")
        self._require("guard", self.guard in (None, "retry", "report"), "retry or report")
        both = self.sample is not None and self.voice is not None
        self._require("voice", not both, "left out where a sample says who speaks")

    @property
    def sampling(self) -> dict[str, Any]:
        """The fields of the request parameters that the request sets."""
        fields = {
            "manual_seed": self.seed,
            "temperature": self.temperature,
            "top_P": self.top_p,
            "top_K": self.top_k,
            "prompt": self.tags or None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    @property
    def shown_warnings(self) -> list[str]:
        """The first warnings, each of bounded length, as an answer has them."""
        return [warning[:_LONGEST_WARNING] for warning in self.warnings[:_SHOWN_WARNINGS]]

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise BadRequestError(f"{name} must be {rule}", param=name)


def check_pauses(text: str) -> None:
    """Check the marks of pauses in a text.

    Raises:
        BadRequestError: a mark is no pause, or the pauses are too long together.
    """
    if "[pause:" not in text:
        return
    try:
        seconds = total_pause(text)
    except TextError as error:
        raise BadRequestError(str(error), param="input") from error
    if seconds > LONGEST_PAUSE:
        raise BadRequestError(
            f"the pauses in the text add up to more than {LONGEST_PAUSE:g} s", param="input"
        )
