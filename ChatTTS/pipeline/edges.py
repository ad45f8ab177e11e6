"""Give an utterance exact silence before its first and after its last audible sample."""

from __future__ import annotations

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..audio.trim import AUDIBLE

NOTHING: Samples = np.zeros(0, dtype=np.float32)


class Edges:
    """Cuts the inaudible samples at the ends of one utterance, and puts silence in their place.

    Samples at the end wait until later ones are audible. The joined results do not depend on how
    the samples came. An utterance that is inaudible throughout is not cut.

    Args:
        before, after: samples of silence; ``None`` leaves that end as it is.
    """

    def __init__(self, before: int | None, after: int | None) -> None:
        self._before, self._after = before, after
        self._held = NOTHING
        self._has_begun = before is None
        self.cut: int | None = 0 if before is None else None
        """Samples that are cut at the beginning; ``None`` before the first audible one."""

    @classmethod
    def at_end(cls, seconds: float | None, tempo: float) -> Edges:
        """Return what puts silence after a sound whose tempo is changed afterwards.

        Args:
            seconds: of the silence; ``None`` for what the voice does.
            tempo: the factor.
        """
        return cls(None, None if seconds is None else round(seconds * tempo * SAMPLE_RATE))

    @property
    def held(self) -> int:
        """The samples that wait for later ones."""
        return len(self._held)

    def push(self, samples: Samples, *, is_last: bool, is_whole: bool = True) -> Samples:
        """Return the samples that are ready, float32 (n,).

        Args:
            is_last: whether no more samples come.
            is_whole: whether these are then the end of the utterance; silence is put after it.
        """
        self._held = np.concatenate([self._held, samples])
        audible = np.flatnonzero(np.abs(self._held) >= AUDIBLE)
        pieces: list[Samples] = []
        if not self._has_begun:
            if not len(audible) and not is_last:
                return self._held[:0]
            self._begin(int(audible[0]) if len(audible) else 0)
            audible = np.flatnonzero(np.abs(self._held) >= AUDIBLE)
        if not is_last:
            ready = len(self._held)
            if self._after is not None:
                ready = int(audible[-1]) if len(audible) else 0
            pieces.append(self._held[:ready])
            self._held = self._held[ready:]
        else:
            pieces.append(self._end(audible) if is_whole else self._held)
            self._held = self._held[:0]
        return np.concatenate(pieces)

    def _begin(self, first: int) -> None:
        assert self._before is not None
        self._has_begun = True
        silence = np.zeros(self._before, dtype=np.float32)
        self._held = np.concatenate([silence, self._held[first:]])
        self.cut = first

    def _end(self, audible: np.ndarray) -> Samples:
        if self._after is None:
            return self._held
        last = int(audible[-1]) + 1 if len(audible) else len(self._held)
        silence = np.zeros(self._after, dtype=np.float32)
        ended: Samples = np.concatenate([self._held[:last], silence])
        return ended
