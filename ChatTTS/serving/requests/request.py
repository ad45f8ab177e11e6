"""Requests for speech, from any interface, checked when they are created."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ...config.request_fields import REQUEST_FIELDS, Manner, Priority, RequestFields
from ...errors import ConfigError, TextError
from ...longform.segments import Segment
from ...text.emphasis import unmarked
from ...text.lexicon import Lexicon
from ...text.pauses import LONGEST_PAUSE, total_pause
from ..errors import BadRequestError

# Fields of requests alone that decide the speech, and those of jobs.
_DECIDING = ("text", "tags", "refine_tags", "first_utterance")
_OF_JOBS = ("text", "sampling", "seed", "refine_tags", "first_utterance")
_TIMES = ("duration", "silence_before", "silence_after", "paragraph_pause")
_ID_LENGTH = 12
# A header has at most some kB. A character may take 12 bytes in it.
_SHOWN_WARNINGS, _LONGEST_WARNING = 5, 100


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


def parse_priority(name: str) -> Priority:
    """Return the priority of a name.

    Raises:
        BadRequestError: the name is neither ``interactive`` nor ``batch``.
    """
    try:
        return Priority[name.upper()]
    except KeyError:
        raise BadRequestError(
            f"unknown priority {name!r}: use interactive or batch", param="priority"
        ) from None


_PARSERS: Mapping[str, Callable[[Any], Any]] = {
    "lexicon": parse_lexicon,
    "priority": parse_priority,
}


def parse_field(name: str, value: Any) -> Any:
    """Return the value of ``RequestFields`` for one of JSON.

    Raises:
        BadRequestError: it cannot be used.
    """
    return _PARSERS[name](value) if name in _PARSERS else value


@dataclass(frozen=True)
class SpeechRequest(RequestFields):
    """One text to be spoken.

    ``request_fields`` describes the fields that are not listed here.

    Attributes:
        text: what to speak; may contain control tags.
        seed: of all random draws.
        is_seeded: whether the client chose the seed, and so may repeat the request.
        sample, transcript: a sample prompt string and its transcript, in place of a voice.
        continued: a sample prompt, as fields of ``InferCodeParams``, beside those of the voice.
        refine_tags: control tags of the refine pass; empty means the defaults of the voice.
        tags: control tags of the speech pass, such as ``[speed_4]``; empty as above.
        guard: ``retry``, ``report``, or ``None`` for neither.
        client: name of the client, for fairness between clients.
        request_id: its name in logs and answers.
        interface: short name of its protocol in logs, such as ``rest``, ``websocket`` or ``grpc``;
            empty for a request of the server itself, whose end is not logged.
        first_utterance: index of the text's first utterance; above 0 if the text continues an
            earlier one.
        reads_ssml: whether a text that begins with ``<speak`` is a document of SSML.
        segments: the parts of an SSML text, which ``text`` has as lines; empty for other texts.
        warnings: what was left out of the SSML.
        continues: whether it belongs to a text that was accepted before; then a server that shuts
            down still speaks it.
        may_be_silent: whether a text without letters, such as ``**`` or an emoji, is a short
            silence; otherwise it is an error.
        voice_language: chooses the voice where none is named: that of the text which it continues;
            for a text of its own, ``None`` until the service has found it.

    Raises:
        BadRequestError: a value is invalid.
    """

    text: str
    seed: int = field(default_factory=new_seed, kw_only=True)
    is_seeded: bool = True
    sample: str | None = None
    transcript: str | None = None
    continued: Mapping[str, str] = field(default_factory=dict)
    refine_tags: str = ""
    tags: str = ""
    client: str = ""
    request_id: str = field(default_factory=new_request_id)
    interface: str = ""
    first_utterance: int = 0
    reads_ssml: bool = True
    segments: tuple[Segment, ...] = ()
    warnings: tuple[str, ...] = ()
    continues: bool = False
    may_be_silent: bool = False
    voice_language: str | None = None

    @classmethod
    def of(cls, text: str, given: RequestFields, **others: Any) -> SpeechRequest:
        """Return the request for a text with the fields that a client gave, and others.

        Without a seed, a new one is drawn.
        """
        values: dict[str, Any] = {each.name: getattr(given, each.name) for each in REQUEST_FIELDS}
        if given.seed is None:
            values |= {"seed": new_seed(), "is_seeded": False}
        return cls(text, **values | others)

    def __post_init__(self) -> None:
        self._require("input", bool(self.text.strip()), "a text to speak")
        for each in REQUEST_FIELDS:
            value = getattr(self, each.name)
            if each.bounds is not None and value is not None:
                self._require(each.name, each.bounds.allow(value), each.bounds.rule)
        self._require("guard", self.guard in (None, "retry", "report"), "retry or report")
        is_plain = self.duration is None or not self.segments
        self._require("duration", is_plain, "left out in SSML: write <prosody duration> there")
        both = self.sample is not None and self.voice is not None
        self._require("voice", not both, "left out where a sample says who speaks")

    @property
    def sampling(self) -> dict[str, Any]:
        """The fields of the request parameters that the request sets."""
        values = {
            each.parameter: getattr(self, each.name) for each in REQUEST_FIELDS if each.parameter
        }
        values["prompt"] = self.tags or None
        return {name: value for name, value in values.items() if value is not None}

    @property
    def needs_word_times(self) -> list[str]:
        """The names of the fields for which the times of words have to be found."""
        is_timed = self.duration is not None or any(each.duration for each in self.segments)
        asked = {
            "timestamp_granularities": self.word_times,
            "guard": self.guard is not None,
            "duration": is_timed,
        }
        return [name for name, wants in asked.items() if wants]

    @property
    def job_fields(self) -> dict[str, Any]:
        """The fields of a ``SpeechJob``, beside the voice."""
        names = (*_OF_JOBS, *(each.name for each in fields(Manner)))
        return {name: getattr(self, name) for name in names} | self._before_tempo

    @property
    def deciding(self) -> dict[str, Any]:
        """Everything that the samples, words and faults depend on, beside the voice."""
        names = (each.name for each in REQUEST_FIELDS if each.decides)
        return {name: getattr(self, name) for name in (*_DECIDING, *names)} | self._before_tempo

    @property
    def _before_tempo(self) -> dict[str, float]:
        """The given seconds as the model speaks them; the encoder changes their tempo."""
        given = {name: getattr(self, name) for name in _TIMES}
        return {name: value * self.speed for name, value in given.items() if value is not None}

    @property
    def shown_warnings(self) -> list[str]:
        """The first warnings, each of bounded length, as an answer has them."""
        return [warning[:_LONGEST_WARNING] for warning in self.warnings[:_SHOWN_WARNINGS]]

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise BadRequestError(f"{name} must be {rule}", param=name)


def without_effect(request: SpeechRequest) -> SpeechRequest:
    """Return a request with the warning that its emphasis has no effect.

    Raises:
        BadRequestError: the client asked for an error in place of warnings.
    """
    message = "emphasis has no effect, since this server knows no word times: run `chattts align`"
    if request.strict:
        raise BadRequestError(message, param="input")
    if message in request.warnings:
        return request
    return replace(request, warnings=(*request.warnings, message))


def check_pauses(request: SpeechRequest) -> None:
    """Check the marks of pauses and emphasis in a text, and its paragraphs.

    Raises:
        BadRequestError: a mark is none, or the pauses are too long together.
    """
    try:
        unmarked(request.text)
        if request.segments:  # their own pauses were checked when they were read
            paragraphs = sum(each.ends_paragraph for each in request.segments)
            seconds = total_pause(request.text) + paragraphs * (request.paragraph_pause or 0.0)
        else:
            seconds = total_pause(request.text, request.paragraph_pause)
    except TextError as error:
        raise BadRequestError(str(error), param="input") from error
    if seconds > LONGEST_PAUSE:
        raise BadRequestError(
            f"the pauses in the text add up to more than {LONGEST_PAUSE:g} s", param="input"
        )
