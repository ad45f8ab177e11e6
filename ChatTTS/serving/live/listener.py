"""The results of a context's text, for the protocol that tells its client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...pipeline.results import Fault, Word
from ...text.lexicon import LexiconUse
from ..errors import ServingError
from .run import Run, RunEnd


@dataclass(frozen=True)
class Utterance:
    """An utterance whose sound begins.

    Attributes:
        number: of the context's utterances; a long one counts as several.
        text: as it was written; of a document of SSML, what is spoken.
        lexicon_uses: where a lexicon replaced words, by characters of the run's text.
        warnings: what was left out of the document.
        left_out: what the voice cannot speak of the text.
    """

    number: int
    text: str
    lexicon_uses: Sequence[LexiconUse] = ()
    warnings: Sequence[str] = ()
    left_out: Sequence[str] = ()


class Listener:
    """Hears what happens in one context, in order. Each call may wait for the client to read.

    Times and characters count from the beginning of the run. A subclass tells its client what its
    protocol has messages for.

    Attributes:
        interface: name of the protocol in logs.
    """

    interface: ClassVar[str]

    async def run_started(self, run: Run) -> None:
        """Called before the first sound of a run."""

    async def utterance_started(self, run: Run, utterance: Utterance) -> None:
        """Called before the first sound of an utterance, which begins at ``run.sent_samples``."""

    async def words_known(self, run: Run, words: Sequence[Word]) -> None:
        """Called with words before the sound that they begin in, or as soon as they are final."""

    async def faults_found(self, run: Run, faults: Sequence[Fault]) -> None:
        """Called with faults of the speech, where the run's settings ask for them."""

    async def sound(self, run: Run, data: bytes) -> None:
        """Called with encoded sound, which begins at ``run.sent_samples``."""

    async def run_ended(self, end: RunEnd) -> None:
        """Called when a run is over; it may have no sound."""

    async def context_ended(self) -> None:
        """Called when all text of the context was spoken and no more follows."""

    async def failed(self, run: Run, error: ServingError) -> None:
        """Called when an utterance cannot be spoken, which is skipped."""
