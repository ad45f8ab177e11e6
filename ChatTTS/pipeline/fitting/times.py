"""The times of a call's texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...audio.samples import SAMPLE_RATE
from ..results import DurationError, Waveforms
from ..speech_lengths import SpeechLengths
from ..utterance import Utterance


@dataclass(frozen=True)
class Timed:
    """A text that has a time.

    Attributes:
        text: as the caller wrote it.
        seconds: its time.
        utterances: in order.
    """

    text: str
    seconds: float
    utterances: Sequence[Utterance]

    @property
    def target(self) -> int:
        """Its samples."""
        return round(self.seconds * SAMPLE_RATE)


@dataclass(frozen=True)
class Fitting:
    """The times that a caller gave.

    Attributes:
        texts: as the caller wrote them.
        durations: for each its seconds, or ``None`` for as long as it takes.
        lengths: predicts the seconds of utterances.
        may_be_late: whether texts that do not fit are given out, as short as can be.
    """

    texts: Sequence[str]
    durations: Sequence[float | None]
    lengths: SpeechLengths
    may_be_late: bool = False

    def has(self, text_index: int) -> bool:
        """Return whether a text has a time."""
        return self.durations[text_index] is not None

    def timed(self, utterances: Sequence[Utterance]) -> list[Timed]:
        """Return the texts that have a time and something to speak."""
        found = []
        for index, (text, seconds) in enumerate(zip(self.texts, self.durations, strict=True)):
            own = [u for u in utterances if u.text_index == index]
            if seconds is not None and own:
                found.append(Timed(text, seconds, own))
        return found

    def check(self, waveforms: Waveforms) -> None:
        """Raise DurationError, with the waveforms, where texts are late and may not be."""
        if self.may_be_late:
            return
        late = [
            (text, row.fit)
            for text, row in zip(self.texts, waveforms.rows, strict=True)
            if row.fit is not None and row.fit.late
        ]
        if late:
            texts, fits = zip(*late, strict=True)
            raise DurationError(texts, fits, waveforms)
