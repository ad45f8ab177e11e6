"""A run: the sound from one ``audio.start`` to its ``audio.done``."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ...audio.samples import SAMPLE_RATE
from ..encoding import Encoder, Format
from ..requests import new_request_id, new_seed
from .config import ContextConfig
from .heard import Heard, Timeline

# Bytes of a sample, where every one of them is sent as it is.
_SAMPLE_BYTES = {Format.PCM: 2, Format.MULAW: 1, Format.ALAW: 1}
_WORST = ("stop", "length", "abort", "error")


@dataclass
class Draws:
    """By what the utterances of a context draw: in one row, as those of one text.

    Attributes:
        seed: of all of them.
        number: of the next one.
    """

    seed: int = field(default_factory=new_seed)
    number: int = 0


@dataclass
class Run:
    """What is known of a run.

    Attributes:
        config: as it was when its first text came.
        draws: of its context.
        request_id: its name.
        timeline: its utterances.
        has_text: whether any text came for it.
        is_started: whether ``audio.start`` was sent.
        is_abandoned: whether an error ended it; what is left of it is not spoken.
        finish_reason: the worst of its utterances' ends; ``None`` before the first.
        sent_bytes: of sound.
        sent_source: samples at 24 kHz and usual speed that these bytes hold.
        unsent_source: samples that went into the encoder, and of which nothing came yet.
    """

    config: ContextConfig
    draws: Draws
    request_id: str = field(default_factory=new_request_id)
    timeline: Timeline = field(default_factory=Timeline)
    has_text: bool = False
    is_started: bool = False
    is_abandoned: bool = False
    finish_reason: str | None = None
    sent_bytes: int = 0
    sent_source: float = 0.0
    unsent_source: int = 0

    @cached_property
    def encoder(self) -> Encoder:
        """Of all its utterances."""
        return self.config.encoder()

    @property
    def sent_samples(self) -> int:
        """At the rate that is sent; estimated for formats that compress."""
        width = _SAMPLE_BYTES.get(self.config.format)
        if width is not None:
            return self.sent_bytes // width
        return round(self.sent_source / self._ratio)

    def finished(self, reason: str) -> None:
        """An utterance ended so."""
        self.finish_reason = max(reason, self.finish_reason or reason, key=_WORST.index)

    def heard(self, played_samples: int | None) -> Heard:
        """The text that was heard, of what was sent."""
        position = self.sent_source
        if played_samples is not None:
            position = min(position, played_samples * self._ratio)
        return self.timeline.heard_until(round(position))

    @property
    def _ratio(self) -> float:
        """Samples at 24 kHz and usual speed for one that is sent."""
        return SAMPLE_RATE * self.config.speed / self.config.rate
