"""Going on with a stream that is generated once more: what the listener has is skipped."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from ...pipeline.results import Fault, Piece, Word
from ..errors import UnavailableError

logger = logging.getLogger(__name__)


class Given:
    """The speech that the listener has: counts of samples, words and faults, and a digest."""

    def __init__(self) -> None:
        self.samples = self.words = self.faults = 0
        self._digest = hashlib.blake2b()

    def add(self, piece: Piece) -> None:
        self.samples += len(piece.samples)
        self.words += len(piece.words)
        self.faults += len(piece.faults)
        self._digest.update(piece.samples.tobytes())

    def digest(self) -> bytes:
        return self._digest.digest()


class Replay:
    """Skips, in the pieces of a second generation, what the listener had before its first one.

    Args:
        given: what the listener has now; later additions do not matter.
    """

    def __init__(self, given: Given) -> None:
        self._samples_left = given.samples
        self._words_left, self._faults_left = given.words, given.faults
        self._expected, self._digest = given.digest(), hashlib.blake2b()
        # New words and faults of pieces without new samples.
        self._held: tuple[tuple[Word, ...], tuple[Fault, ...]] = (), ()

    def fresh(self, piece: Piece) -> Piece | None:
        """Return what is new of a piece; ``None`` if nothing is.

        Raises:
            UnavailableError: the skipped samples are not those that the listener has.
        """
        words = self._held[0] + piece.words[self._words_left :]
        self._words_left = max(0, self._words_left - len(piece.words))
        faults = self._held[1] + piece.faults[self._faults_left :]
        self._faults_left = max(0, self._faults_left - len(piece.faults))
        skipped = piece.samples[: self._samples_left]
        if len(skipped):
            self._digest.update(skipped.tobytes())
            self._samples_left -= len(skipped)
            if not self._samples_left and self._digest.digest() != self._expected:
                logger.error("a second generation computes other samples")
                raise other_sound()
        samples = piece.samples[len(skipped) :]
        self._held = ((), ()) if len(samples) else (words, faults)
        if not len(samples):
            return None
        position = piece.position + len(skipped)
        return replace(piece, samples=samples, position=position, words=words, faults=faults)

    def check_complete(self) -> None:
        """Raise UnavailableError if it ended before the samples that were given."""
        if self._samples_left:
            logger.error("a second generation computes fewer samples")
            raise other_sound()


def other_sound() -> UnavailableError:
    """Return the error of a stream that cannot go on."""
    return UnavailableError(
        "the replica that was speaking this text is gone, and another one would sound different: "
        "send the request again"
    )
