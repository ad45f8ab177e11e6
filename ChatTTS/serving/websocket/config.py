"""How a context speaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...audio.samples import SAMPLE_RATE
from ...errors import AudioError
from ..encoding import Encoder, Format, encoder
from ..errors import BadRequestError
from ..requests import Priority, SpeechRequest
from .messages import is_text

_LONGEST_QUIET = 600_000  # milliseconds

_KINDS: Mapping[str, tuple[type, ...]] = {
    "model": (str,),
    "voice": (str,),
    "response_format": (str,),
    "audio": (str,),
    "seed": (int,),
    "speed": (int, float),
    "language": (str,),
    "temperature": (int, float),
    "top_p": (int, float),
    "top_k": (int,),
    "low_latency": (bool,),
    "refine": (bool,),
    "sample_rate": (int,),
    "priority": (str,),
    "framing": (bool,),
    "flush_after": (int, float),
}
_WORDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True)
class ContextConfig:
    """The fields of ``session.config``.

    Attributes:
        model: any name; there is one.
        voice: see ``SpeechRequest``, as are the fields that are not told here.
        response_format: of the sound.
        audio: ``binary`` frames, or ``base64`` in JSON.
        seed: of all draws; drawn for each context without one.
        sample_rate: samples a second, where the format knows it.
        framing: whether an ``audio.chunk`` comes before each binary frame in any case.
        flush_after: milliseconds without text after which what is here is spoken.
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
    sample_rate: int = SAMPLE_RATE
    priority: str = "interactive"
    framing: bool = False
    flush_after: float | None = None

    def changed(self, fields: Mapping[str, Any]) -> ContextConfig:
        """A copy with these fields; ``None`` stands for the default.

        Raises:
            BadRequestError: a field that there is not, or a value that cannot be used.
        """
        usual = ContextConfig()
        values: dict[str, Any] = {}
        for name, value in fields.items():
            if name == "voice" and isinstance(value, dict):
                value = value.get("id")
            values[name] = getattr(usual, name, None) if value is None else value
            _check_kind(name, values[name] if value is None else value)
        config = replace(self, **values)
        config._check()
        return config

    @property
    def is_base64(self) -> bool:
        """Whether the sound goes into JSON."""
        return self.audio == "base64"

    @property
    def format(self) -> Format:
        """Of the sound."""
        return Format.parse(self.response_format)

    @property
    def rate(self) -> int:
        """Samples a second of what is sent."""
        return self.format.carried_rate(self.sample_rate)

    def encoder(self) -> Encoder:
        """For one run."""
        return encoder(self.format, self.sample_rate, self.speed)

    def request(
        self, text: str, seed: int, *, is_first: bool = True, **others: Any
    ) -> SpeechRequest:
        """The request for an utterance.

        Args:
            is_first: whether somebody waits for it in silence: only then latency counts.
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
            priority=Priority.parse(self.priority),
            **others,
        )

    def _check(self) -> None:
        self.request("text", self.seed or 0)
        for name, value in (("response_format", lambda: self.format), ("sample_rate", self._rate)):
            try:
                value()
            except AudioError as error:
                raise BadRequestError(str(error), param=name) from error
        if self.audio not in ("binary", "base64"):
            raise BadRequestError("audio must be binary or base64", param="audio")
        if self.flush_after is not None and not 0 < self.flush_after <= _LONGEST_QUIET:
            raise BadRequestError(
                f"flush_after must be milliseconds, above 0 and at most {_LONGEST_QUIET}",
                param="flush_after",
            )

    def _rate(self) -> int:
        return self.rate


def _check_kind(name: str, value: Any) -> None:
    kinds = _KINDS.get(name)
    if kinds is None:
        known = ", ".join(_KINDS)
        raise BadRequestError(
            f"session.config has no field {name[:40]!r}; it has: {known}", param=name
        )
    if value is None:
        return
    fits = isinstance(value, kinds) and (kinds == (bool,) or not isinstance(value, bool))
    if not fits or (kinds == (str,) and not is_text(value)):
        raise BadRequestError(f"{name} must be {_WORDS[kinds[-1]]}", param=name)
