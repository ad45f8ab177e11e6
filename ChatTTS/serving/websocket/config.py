"""The settings of a context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args, get_type_hints

from ...audio.samples import SAMPLE_RATE
from ...errors import AudioError
from ...text.lexicon import Lexicon
from ..encoding import Encoder, Format
from ..errors import BadRequestError
from ..requests import GUARDS, Priority, SpeechRequest, parse_lexicon
from .messages import is_text

_MAX_FLUSH_AFTER = 600_000  # milliseconds

_KIND_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class ContextConfig:
    """The fields of ``session.config``.

    ``SpeechRequest`` describes the fields that are not listed here.

    Attributes:
        model: any name, since the server has one model.
        response_format: of the sound.
        audio: ``binary`` frames, or ``base64`` in JSON.
        seed: of all random draws; ``None`` draws a seed for each context.
        sample_rate: samples a second; a format without this rate uses its next higher one.
        word_times: whether the words are sent, with their times.
        guard: ``retry`` or ``report`` sends the faults of the speech; ``none`` looks for none;
            ``None`` is the server's choice, and sends none.
        lexicon: an object of words and their sayings; an empty one replaces nothing.
        framing: whether an ``audio.chunk`` always comes before a binary frame.
        flush_after: milliseconds without new text after which a flush happens by itself.
    """

    model: str | None = None
    voice: str | None = None
    response_format: str = "pcm"
    audio: str = "binary"
    seed: int | None = None
    speed: float = 1.0
    language: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    low_latency: bool = False
    refine: bool = False
    word_times: bool = False
    guard: str | None = None
    lexicon: Lexicon = field(default_factory=Lexicon)
    sample_rate: int = SAMPLE_RATE
    priority: str = "interactive"
    framing: bool = False
    flush_after: float | None = None

    def updated(self, fields: Mapping[str, Any]) -> ContextConfig:
        """Return a copy with these fields; ``None`` stands for the default.

        Raises:
            BadRequestError: a field does not exist, or a value cannot be used.
        """
        defaults = ContextConfig()
        values: dict[str, Any] = {}
        for name, value in fields.items():
            if name == "voice" and isinstance(value, dict):
                value = value.get("id")
            elif name == "lexicon":
                value = parse_lexicon(value)
            values[name] = getattr(defaults, name, None) if value is None else value
            _check_kind(name, values[name])
        config = replace(self, **values)
        config._check()
        return config

    @property
    def is_base64(self) -> bool:
        """Return whether the sound is sent in JSON messages."""
        return self.audio == "base64"

    @property
    def format(self) -> Format:
        """The format of the sound."""
        return Format.parse(self.response_format)

    @property
    def rate(self) -> int:
        """Samples a second of the sound that is sent."""
        return self.format.carried_rate(self.sample_rate)

    @property
    def tells_faults(self) -> bool:
        """Return whether the faults of the speech are sent."""
        return self.guard in ("retry", "report")

    def encoder(self) -> Encoder:
        """Return an encoder for one run."""
        return Encoder(self.format, self.sample_rate, self.speed)

    def request(
        self, text: str, seed: int, *, is_first: bool = True, **others: Any
    ) -> SpeechRequest:
        """Return the request for an utterance.

        Args:
            is_first: whether the client hears nothing until it begins. ``low_latency`` is only
                used then.
        """
        return SpeechRequest(
            text,
            voice=self.voice,
            speed=self.speed,
            seed=seed,
            is_seeded=self.seed is not None,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            language=self.language,
            refine=self.refine,
            low_latency=self.low_latency and is_first,
            word_times=self.word_times,
            lexicon=self.lexicon,
            priority=Priority.parse(self.priority),
            **others,
        )

    def _check(self) -> None:
        self.request("text", self.seed or 0)
        for name, attribute in (("response_format", "format"), ("sample_rate", "rate")):
            try:
                getattr(self, attribute)
            except AudioError as error:
                raise BadRequestError(str(error), param=name) from error
        if self.guard not in (None, *GUARDS):
            raise BadRequestError("guard must be retry, report or none", param="guard")
        if self.audio not in ("binary", "base64"):
            raise BadRequestError("audio must be binary or base64", param="audio")
        if self.flush_after is not None and not 0 < self.flush_after <= _MAX_FLUSH_AFTER:
            raise BadRequestError(
                f"flush_after must be milliseconds, above 0 and at most {_MAX_FLUSH_AFTER}",
                param="flush_after",
            )


_KINDS = {
    name: get_args(hint)[0] if get_args(hint) else hint
    for name, hint in get_type_hints(ContextConfig).items()
}


def _check_kind(name: str, value: Any) -> None:
    kind = _KINDS.get(name)
    if kind is None:
        known = ", ".join(_KINDS)
        raise BadRequestError(
            f"session.config has no field {name[:40]!r}; it has: {known}", param=name
        )
    if value is None:
        return
    kinds = (int, float) if kind is float else (kind,)
    fits = is_text(value) if kind is str else isinstance(value, kinds)
    if not fits or isinstance(value, bool) != (kind is bool):
        raise BadRequestError(f"{name} must be {_KIND_NAMES[kind]}", param=name)
