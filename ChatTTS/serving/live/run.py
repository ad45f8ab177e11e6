"""A run: the speech up to a flush, with one encoder."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from functools import cached_property

from ...audio.samples import SAMPLE_RATE
from ...pipeline.edges import Edges
from ...pipeline.results import Word
from ...text.borders import Border
from ..encoding import Encoder, Format
from ..errors import UnspeakableError
from ..requests.request import new_request_id, new_seed
from ..speech.config import RunConfig
from .timeline import PlayedText, Timeline

# Bytes per sample of the formats that do not compress.
_SAMPLE_BYTES = {Format.PCM: 2, Format.MULAW: 1, Format.ALAW: 1}
_FINISH_REASONS_BY_SEVERITY = ("stop", "length", "abort", "error")


@dataclass
class SeedState:
    """The settings that determine the random draws and the voice of a context's next utterance.

    The utterances of a context draw like the utterances of one long text: with one seed, and with
    consecutive numbers.

    Attributes:
        seed: of all utterances.
        next_utterance: number of the next one.
        language: that of its first words, which chooses the voice where none is named; ``None``
            before these.
    """

    seed: int = field(default_factory=new_seed)
    next_utterance: int = 0
    language: str | None = None


@dataclass
class Run:
    """The state of a run.

    Attributes:
        config: the context's settings when the first text of the run came.
        seed_state: of its context.
        request_id: its name in messages and logs.
        timeline: its utterances.
        has_text: whether any text came for it.
        is_started: whether the listener has heard of its beginning.
        voice: name of the voice that speaks, once it is started.
        is_abandoned: whether an error ended it; the rest of its text is not spoken.
        unspeakable: the error of its first utterance that the voice cannot speak, and that was
            left out.
        finish_reason: the most severe finish reason of its utterances; ``None`` before the first.
        sent_bytes: of sound.
        sent_source_samples: samples at 24 kHz and normal speed that these bytes hold.
        unsent_source_samples: samples that the encoder has taken without giving bytes since.
        unsent_words: words that are final, and are sent with the sound that they begin in.
    """

    config: RunConfig
    seed_state: SeedState
    request_id: str = field(default_factory=new_request_id)
    timeline: Timeline = field(default_factory=Timeline)
    has_text: bool = False
    is_started: bool = False
    voice: str = ""
    is_abandoned: bool = False
    unspeakable: UnspeakableError | None = None
    finish_reason: str | None = None
    sent_bytes: int = 0
    sent_source_samples: float = 0.0
    unsent_source_samples: int = 0
    unsent_words: deque[Word] = field(default_factory=deque)

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder of all its utterances."""
        return self.config.encoder()

    @cached_property
    def end(self) -> Edges:
        """The buffer of the end of its samples, where the silence there has a length of its own."""
        return self.config.held_end()

    @property
    def source_samples(self) -> int:
        """Samples at 24 kHz and normal speed that the encoder has taken."""
        return round(self.sent_source_samples + self.unsent_source_samples)

    @property
    def seconds(self) -> float:
        """Seconds of the sound at its tempo that the encoder has taken."""
        return self.source_samples / SAMPLE_RATE / self.config.speed

    def take_words(self, end: float = math.inf) -> list[Word]:
        """Take the unsent words that begin before ``end``, in samples at 24 kHz."""
        words, taken = self.unsent_words, []
        while words and words[0].start_sample < end:
            taken.append(words.popleft())
        return taken

    @property
    def sent_samples(self) -> int:
        """Samples that were sent, at the sent rate; an estimate for compressed formats."""
        width = _SAMPLE_BYTES.get(self.config.format)
        if width is not None:
            return self.sent_bytes // width
        return round(self.sent_source_samples / self._source_samples_per_sample)

    def record_finish(self, reason: str) -> None:
        """Note the finish reason of an utterance."""
        self.finish_reason = max(
            reason, self.finish_reason or reason, key=_FINISH_REASONS_BY_SEVERITY.index
        )

    def played_text(self, played_samples: int | None) -> PlayedText:
        """Return the text that was played.

        Args:
            played_samples: at the sent rate, at most what was sent; ``None`` takes all of that.
        """
        position = self.sent_source_samples
        if played_samples is not None:
            position = min(position, played_samples * self._source_samples_per_sample)
        return self.timeline.text_until(round(position))

    @property
    def _source_samples_per_sample(self) -> float:
        """Samples at 24 kHz and normal speed for one sample that is sent."""
        return SAMPLE_RATE * self.config.speed / self.config.rate


@dataclass(frozen=True)
class QueuedUtterance:
    """An utterance that is to be spoken in a run.

    Attributes:
        run: the run.
        text: as it was written.
        reads_ssml: whether it is a document of SSML, if it begins as one.
        border: what divides it from the next one.
        follows_break: whether the utterance of the run before ended with a break or with a
            paragraph, whose pause is all the silence between them.
    """

    run: Run
    text: str
    reads_ssml: bool = False
    border: Border = Border.NONE
    follows_break: bool = False


@dataclass(frozen=True)
class RunEnd:
    """Marks that all text of a run has come.

    Attributes:
        is_requested: whether the client waits for the run's end even if the run has no text.
        is_last: whether the context ends with it.
    """

    run: Run
    is_requested: bool
    is_last: bool = False
