"""The sounds that a test may give, as one waveform with its words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..audio.files import read
from ..audio.samples import SAMPLE_RATE, Samples, check_rate, is_path, to_mono
from ..errors import AudioError


@dataclass(frozen=True)
class TimedText:
    """A word and its seconds in the sound."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Sound:
    """A waveform.

    Attributes:
        samples: float32 (n,), full scale 1.
        rate: in Hz.
        words: those whose times are known, in order.
    """

    samples: Samples
    rate: int
    words: tuple[TimedText, ...] = ()

    @property
    def length(self) -> str:
        """The length, for messages."""
        return length_of(len(self.samples), self.rate)

    @classmethod
    def of(cls, given: Any, sample_rate: int = SAMPLE_RATE) -> Sound:
        """Return the sound that a test gave.

        Args:
            given: a sound file's path; a waveform, as ``compare`` takes it; the result of ``infer``
                for one text; or an iterator of chunks, as streams are, which is read to its end.
            sample_rate: of arrays and chunks, in Hz; a file has its own.

        Raises:
            AudioError: it is no sound, or has no samples.
        """
        if is_path(given):
            samples, rate = read(given)
        else:
            source = _joined(given) if isinstance(given, Iterator) else given
            samples, rate = to_mono(source, "sound"), check_rate(sample_rate)
        if not samples.size:
            raise AudioError("the sound is empty; there is nothing to compare")
        spoken = _spoken(given)
        words = tuple(TimedText(word.text, word.start, word.end) for word in spoken)
        return cls(samples + np.float32(0), rate, words)  # -0.0 becomes 0.0: they are equal


def length_of(samples: int, rate: int) -> str:
    """Return a length for messages."""
    return f"{samples:,} samples ({samples / rate:.2f} s)"


def _joined(chunks: Iterator[Any]) -> Samples:
    """Return the samples of a stream's chunks, arrays or ``Piece``s."""
    parts = [to_mono(getattr(chunk, "samples", chunk), "a chunk") for chunk in chunks]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def _spoken(given: Any) -> Iterable[Any]:
    """Return the words of the one text of a result or a stream; none of other sounds."""
    rows: Sequence[Any] = getattr(given, "rows", ())
    return rows[0].words if len(rows) == 1 else ()
