"""The space of speakers: the points of the four voices, and the speech of points between them.

``sample_random_speaker()`` draws each coordinate of a vector from a normal distribution, and
normalises the vector. In hundreds of coordinates, all such draws lie equally far from any four
learned points, in directions that training never used. So the points are not learned: four
coordinates hold all information, and the others are zero.

- The first three are a direction. The voices are the corners of a tetrahedron, so all distances
  between them are equal, and every draw lies between some of them. In training, a direction gets
  the speech of a voice nearby, drawn in proportion to ``exp(8 cos)``.
- The fourth, over the length of the first three, is the size of the speaker: the speech is
  stretched by up to a twelfth, which changes pitch and formants together. So random speakers differ
  from the four voices and from each other.

Most utterances of the corpus belong to the four voices, unchanged. The others are drawn from the
distribution of the speaker statistics, but speakers near the default voice come twice as often, as
does the voice itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from .data import Corpus, code_of
from .run import Utterances
from .types import FRAME_SAMPLES, SAMPLE_RATE, VOICES, Spoken

COORDINATES = 4
# Standard deviations of the four coordinates; their means are zero.
STD = np.array([1.0, 1.0, 1.0, 0.35])
CORNERS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
_SHARPNESS = 8.0
_STRETCH, _MOST = 0.25, 0.08
_EXACT = 0.7  # share of utterances by the voice itself
_STREAM = 0x5EA  # distinguishes these draws from others with the same seed


@dataclass(frozen=True, eq=False)
class Speaker:
    """A point of the space: float32 [4] of length 1, and whether it is one of the voices."""

    point: NDArray[np.float32]
    is_voice: bool

    @property
    def size(self) -> float:
        """The factor that stretches the speech of the nearest voice, 0.92 to 1.08."""
        ratio = float(self.point[3]) / max(1e-6, float(np.linalg.norm(self.point[:3])))
        return 1 + float(np.clip(_STRETCH * ratio, -_MOST, _MOST))


@dataclass(frozen=True, eq=False)
class Drawn(Spoken):
    """An utterance by a drawn speaker: ``voice`` is the nearest, ``samples`` are stretched."""

    speaker: Speaker


def voice_speaker(voice: str) -> Speaker:
    """Return the point of one of the four voices."""
    return Speaker(_normalised(np.append(CORNERS[VOICES.index(voice)], 0.0)), True)


def drawn_speaker(voice: str, seed: int, index: int) -> Speaker:
    """Return the speaker of utterance ``index`` in this voice: the voice itself, or one near it."""
    rng = np.random.default_rng((seed, _STREAM, index))
    if rng.random() < _EXACT:
        return voice_speaker(voice)
    # Rejection sampling: draw a speaker and then a voice for it, until that is the wanted voice.
    # This gives the distribution of the speakers of that voice.
    while True:
        point = rng.standard_normal(COORDINATES) * STD
        nearness = CORNERS @ (point[:3] / np.linalg.norm(point[:3]))
        chances = np.exp(_SHARPNESS * (nearness - nearness.max()))
        if rng.choice(len(VOICES), p=chances / chances.sum()) == VOICES.index(voice):
            return Speaker(_normalised(point), False)


def stretched(spoken: Spoken, size: float) -> Spoken:
    """Stretch speech: a speaker of size over 1 sounds lower and slower, under 1 the reverse."""
    if size == 1:
        return spoken
    import soxr

    samples = soxr.resample(spoken.samples, SAMPLE_RATE, SAMPLE_RATE * size)
    last = max(0, len(samples) // FRAME_SAMPLES - 1)
    starts = np.minimum((spoken.starts * size).astype(np.int32), last)
    places = ((np.arange(last + 1) + 0.5) / size).astype(np.int64)
    return replace(
        spoken,
        samples=samples.astype(np.float32),
        starts=starts,
        sounds=spoken.sounds[places.clip(0, len(spoken.sounds) - 1)],
    )


class Varied:
    """A corpus spoken by drawn speakers; an utterance always has the same speaker.

    Args:
        corpus: speech of the voices.
        seed: seed of the speakers.
    """

    def __init__(self, corpus: Utterances, seed: int) -> None:
        self.corpus, self.seed = corpus, seed

    def __len__(self) -> int:
        return len(self.corpus)

    @overload
    def __getitem__(self, index: int) -> Drawn: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Drawn]: ...
    def __getitem__(self, index: int | slice) -> Drawn | Sequence[Drawn]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return self._drawn(self.corpus[index], index)

    @property
    def digest(self) -> str:
        """Return a digest of all that the speech depends on, except the seed."""
        own = f"{zlib.crc32(code_of(Path(__file__))):08x}"
        return f"{self.corpus.digest}-{own}" if isinstance(self.corpus, Corpus) else own

    def spoken(self, start: int) -> Iterator[Drawn]:
        """Yield utterances from ``start`` on, in order.

        Worker processes synthesize a corpus that is not on the disk.
        """
        if isinstance(self.corpus, Corpus):
            speech = self.corpus.spoken(start)
        else:
            speech = (self.corpus[index] for index in range(start, len(self)))
        return map(self._drawn, speech, count(start))

    def _drawn(self, spoken: Spoken, index: int) -> Drawn:
        speaker = drawn_speaker(spoken.voice, self.seed, index % len(self))
        varied = stretched(spoken, speaker.size)
        return Drawn(
            varied.text,
            varied.voice,
            varied.speed,
            varied.samples,
            varied.starts,
            varied.sounds,
            speaker,
        )


def varied(corpus: Utterances, seed: int) -> Varied:
    """Return ``corpus`` spoken by drawn speakers; a :class:`Varied` is returned unchanged."""
    return corpus if isinstance(corpus, Varied) else Varied(corpus, seed)


def speaker_of(spoken: Spoken) -> Speaker:
    """Return the speaker of an utterance."""
    return spoken.speaker if isinstance(spoken, Drawn) else voice_speaker(spoken.voice)


def statistics(hidden: int) -> NDArray[np.float16]:
    """Return ``spk_stat``: standard deviations [hidden], then means [hidden]."""
    values = np.zeros(2 * hidden, np.float16)
    values[:COORDINATES] = STD
    return values


def _normalised(point: NDArray[np.float64]) -> NDArray[np.float32]:
    normalised: NDArray[np.float32] = (point / np.linalg.norm(point)).astype(np.float32)
    return normalised
