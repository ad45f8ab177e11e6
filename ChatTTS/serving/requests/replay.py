"""Going on with a stream that is generated once more: what the listener has is skipped."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace

from ...audio.samples import Samples
from ...pipeline.results import Fault, Piece, Word
from ..errors import UnavailableError

logger = logging.getLogger(__name__)

_STRIDE = 32  # one sample of so many is compared


class SampleDigest:
    """A digest of some of the samples of a waveform, which does not depend on its pieces.

    Two generations that differ do so in long stretches. A digest of all samples took a sixth of the
    time of a server's thread.

    Attributes:
        count: samples so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._digest = hashlib.blake2b()

    def add(self, samples: Samples) -> None:
        """Add the samples that follow."""
        self._digest.update(samples[-self.count % _STRIDE :: _STRIDE].tobytes())
        self.count += len(samples)

    def digest(self) -> bytes:
        """Return the digest of the samples so far."""
        return self._digest.digest()


class DeliveredSpeech:
    """The speech that the listener has: counts of samples, words and faults, and a digest."""

    def __init__(self) -> None:
        self.words = self.faults = 0
        self._samples = SampleDigest()

    @property
    def samples(self) -> int:
        """The number of samples that the listener has."""
        return self._samples.count

    def add(self, piece: Piece) -> None:
        """Add a piece that the listener gets."""
        self.words += len(piece.words)
        self.faults += len(piece.faults)
        self._samples.add(piece.samples)

    def digest(self) -> bytes:
        """Return the digest of the samples so far."""
        return self._samples.digest()


class Replay:
    """Skips, in the pieces of a second generation, what the listener had before its first one.

    Args:
        delivered: what the listener has now; later additions do not matter.
    """

    def __init__(self, delivered: DeliveredSpeech) -> None:
        self._samples_left = delivered.samples
        self._words_left, self._faults_left = delivered.words, delivered.faults
        self._expected, self._digest = delivered.digest(), SampleDigest()
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
            self._digest.add(skipped)
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
