"""The settings of a run, whatever the protocol calls them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...audio.samples import SAMPLE_RATE
from ...errors import AudioError
from ...text.lexicon import Lexicon
from ..encoding import Encoder, Format
from ..errors import BadRequestError
from ..requests import GUARDS, Priority, SpeechRequest

_MAX_FLUSH_AFTER = 600_000  # milliseconds
_BIT_RATES = (8_000, 256_000)  # that Opus takes for one channel


@dataclass(frozen=True)
class RunConfig:
    """The settings by which the text of a run is spoken and sent.

    ``SpeechRequest`` describes the fields that are not listed here.

    Attributes:
        response_format: of the sound.
        seed: of all random draws; ``None`` draws a seed for each context.
        sample_rate: samples a second; a format without this rate uses its next higher one.
        word_times: whether the listener hears of the words, with their times.
        guard: ``retry`` or ``report`` tells the faults of the speech; ``none`` looks for none;
            ``None`` is the server's choice, and tells none.
        lexicon: an object of words and their sayings; an empty one replaces nothing.
        flush_after: milliseconds without new text after which a flush happens by itself.
        bit_rate: bits a second of the sound, as :class:`..encoding.Encoder` takes them.
    """

    voice: str | None = None
    response_format: str = "pcm"
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
    flush_after: float | None = None
    bit_rate: int | None = None

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
        return Encoder(self.format, self.sample_rate, self.speed, self.bit_rate)

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
