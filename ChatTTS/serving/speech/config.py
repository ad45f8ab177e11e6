"""The settings of a run, whatever the protocol calls them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...audio.samples import SAMPLE_RATE
from ...config.mark import Mark
from ...config.request_fields import GUARDS, REQUEST_FIELDS, RequestFields
from ...errors import AudioError
from ...pipeline.edges import Edges
from ..encoding import Encoder, Format
from ..errors import BadRequestError
from ..requests.request import SpeechRequest
from .speech import silence

_MAX_FLUSH_AFTER = 600_000  # milliseconds
_BIT_RATES = (8_000, 256_000)  # that Opus takes for one channel


@dataclass(frozen=True, kw_only=True)
class RunConfig(RequestFields):
    """The settings by which the text of a run is spoken and sent.

    ``request_fields`` describes the fields that are not listed here. Without a seed, each context
    draws one. A guard of the server's choice tells no faults.

    Attributes:
        response_format: of the sound.
        sample_rate: samples a second; a format without this rate uses its next higher one.
        flush_after: milliseconds without new text after which a flush happens by itself.
        bit_rate: bits a second of the sound, as :class:`..encoding.Encoder` takes them.
    """

    response_format: str = "pcm"
    sample_rate: int = SAMPLE_RATE
    flush_after: float | None = None
    bit_rate: int | None = None

    @classmethod
    def of(cls, given: RequestFields, **others: Any) -> RunConfig:
        """Return the settings with the fields that a client gave, and others."""
        values = {each.name: getattr(given, each.name) for each in REQUEST_FIELDS}
        return cls(**values | others)

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

    def encoder(self, mark: Mark | None = None) -> Encoder:
        """Return an encoder for one run, with a mark in its header if it has a place for one."""
        return Encoder(self.format, self.sample_rate, self.speed, self.bit_rate, mark=mark)

    def held_end(self) -> Edges:
        """Return what holds back the end of a run's samples until it is known to be the end."""
        return Edges.at_end(self.silence_after, self.speed)

    def silence(self) -> bytes:
        """Return the sound of a text with nothing to speak."""
        encoder = self.encoder()
        return encoder.push(silence().samples) + encoder.finish()

    def request(
        self,
        text: str,
        seed: int,
        *,
        is_first: bool = True,
        is_last: bool = True,
        **others: Any,
    ) -> SpeechRequest:
        """Return the request for an utterance.

        Args:
            is_first: whether the client hears nothing until it begins. ``low_latency`` and
                ``silence_before`` are only used then.
            is_last: whether the run ends with it, and with the ``silence_after``.
            others: further fields of it, such as the ``guard`` that the server chooses.
        """
        own = {
            "seed": seed,
            "low_latency": self.low_latency and is_first,
            "guard": None,
            "silence_before": self.silence_before if is_first else None,
            "silence_after": self.silence_after if is_last else None,
        }
        return SpeechRequest.of(text, self, **own | others)

    def check(self) -> None:
        """Raise BadRequestError if a value cannot be used."""
        self.request("text", self.seed or 0)
        for name, attribute in (("response_format", "format"), ("sample_rate", "rate")):
            try:
                getattr(self, attribute)
            except AudioError as error:
                raise BadRequestError(str(error), param=name) from error
        if self.guard not in (None, *GUARDS):
            raise BadRequestError("guard must be retry, report or none", param="guard")
        if self.flush_after is not None and not 0 < self.flush_after <= _MAX_FLUSH_AFTER:
            raise BadRequestError(
                f"flush_after must be above 0 and at most {_MAX_FLUSH_AFTER} milliseconds",
                param="flush_after",
            )
        if self.bit_rate is not None and not _BIT_RATES[0] <= self.bit_rate <= _BIT_RATES[1]:
            low, high = _BIT_RATES
            raise BadRequestError(
                f"bit_rate must be from {low} to {high} bits a second", param="bit_rate"
            )
