"""Results of ``infer`` and of streams: waveforms, pieces, and how each text ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..errors import ChatTTSError
from ..model.generation import FinishReason


@dataclass
class SpokenUtterance:
    """One utterance of a text: its words, its length, and how it ended.

    Attributes:
        text: as it went into the speech pass.
        samples: its length, in samples at 24 kHz.
        finish: how it ended; ``None`` while it is being generated.
    """

    text: str
    samples: int = 0
    finish: FinishReason | None = None


@dataclass
class SpokenText:
    """The spoken utterances of one text, in order."""

    utterances: list[SpokenUtterance] = field(default_factory=list)

    @property
    def finish_reason(self) -> str | None:
        """``stop``, ``length`` or ``abort``; ``None`` while an utterance is unfinished."""
        reasons = [u.finish for u in self.utterances]
        if None in reasons:
            return None
        for reason in (FinishReason.ABORT, FinishReason.LENGTH):
            if reason in reasons:
                return str(reason.value)
        return str(FinishReason.STOP.value)


class Waveforms(list[NDArray[np.float32]]):
    """A list with one 1-D float32 array at 24 kHz for each text.

    Attributes:
        rows: for each text, its utterances with their lengths and finish reasons.
    """

    def __init__(self, waveforms: Iterable[NDArray[np.float32]], rows: list[SpokenText]) -> None:
        super().__init__(waveforms)
        self.rows = rows

    @property
    def finish_reasons(self) -> list[str | None]:
        """How each text ended: ``stop``, ``length`` or ``abort``."""
        return [row.finish_reason for row in self.rows]


@dataclass(frozen=True)
class Piece:
    """A piece of speech; all of it belongs to one utterance.

    Attributes:
        samples: float32 [n] at 24 kHz, n > 0.
        position: of the first sample in the whole.
        utterance: number of the utterance in the text, from 0.
        text: of the utterance, as it went into the speech pass.
        finish_reason: how the utterance ended, ``stop``, ``length`` or ``abort``, in its last
            piece; ``None`` in the others.
    """

    samples: NDArray[np.float32]
    position: int
    utterance: int
    text: str
    finish_reason: str | None


class EmptySpeechError(ChatTTSError):
    """Raised for utterances that the model ended at once in every attempt.

    Attributes:
        texts: those utterances.
        waveforms: of all the texts, so that no speech is lost; ``None`` at the end of a stream,
            which has given them already.
    """

    def __init__(self, texts: list[str], waveforms: Waveforms | None) -> None:
        listed = ", ".join(repr(t if len(t) <= 40 else t[:40] + "...") for t in texts)
        super().__init__(
            f"nothing was spoken for {listed}: the model ended at once in every attempt. Try "
            "another seed or more words, or take the empty result with ensure_non_empty=False"
        )
        self.texts = texts
        self.waveforms = waveforms
