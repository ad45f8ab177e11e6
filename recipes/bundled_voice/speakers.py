"""Where the voices stand in the space of speakers, and which speech stands between them.

``sample_random_speaker()`` draws a normal vector, coordinate by coordinate, and normalises it. In
hundreds of coordinates such draws all lie equally far from any four learned points, along
directions that no training ever met. So the points are not learned: four coordinates carry
everything and the others are zero.

- The first three are a direction. The voices are the corners of a tetrahedron, so each is as far
  from every other, and every draw lies between some of them. In training a direction gets the
  speech of a voice nearby, drawn in proportion to ``exp(8 cos)``.
- The fourth, over the length of the first three, is the size of the speaker: his speech is
  stretched by up to a twelfth, which moves pitch and formants together. So random speakers differ
  from the four and from each other.

Most of the corpus stands on the corners as it is; the rest is drawn from the distribution that the
speaker statistics describe, but that those near the default voice come twice as often, as it does.
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

from .data import Corpus
from .run import Utterances
from .types import FRAME_SAMPLES, SAMPLE_RATE, VOICES, Spoken

COORDINATES = 4
# Standard deviations of the four; their means are zero.
STD = np.array([1.0, 1.0, 1.0, 0.35])
CORNERS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / np.sqrt(3)
_SHARPNESS = 8.0
_STRETCH, _MOST = 0.25, 0.08
_EXACT = 0.7  # share of utterances by the voice itself
_STREAM = 0x5EA  # sets these draws apart from others with the same seed


@dataclass(frozen=True, eq=False)
class Speaker:
    """A point of the space: float32 [4] of length 1, and whether it is a voice itself."""

    point: NDArray[np.float32]
    is_voice: bool

    @property
    def size(self) -> float:
        """What the speech of the nearest voice is stretched by, 0.92 to 1.08."""
        ratio = float(self.point[3]) / max(1e-6, float(np.linalg.norm(self.point[:3])))
        return 1 + float(np.clip(_STRETCH * ratio, -_MOST, _MOST))


@dataclass(frozen=True, eq=False)
class Drawn(Spoken):
    """An utterance by a drawn speaker: ``voice`` is the nearest, ``samples`` are stretched."""

    speaker: Speaker


def voice_speaker(voice: str) -> Speaker:
    """The point of one of the four voices."""
    return Speaker(_normalised(np.append(CORNERS[VOICES.index(voice)], 0.0)), True)


def drawn_speaker(voice: str, seed: int, index: int) -> Speaker:
    """The speaker of utterance ``index`` in this voice: the voice itself, or one near it."""
    rng = np.random.default_rng((seed, _STREAM, index))
    if rng.random() < _EXACT:
        return voice_speaker(voice)
    # Whoever draws a speaker and then a voice for it, until it is this voice, draws a speaker
    # for this voice.
    while True:
        point = rng.standard_normal(COORDINATES) * STD
        nearness = CORNERS @ (point[:3] / np.linalg.norm(point[:3]))
        chances = np.exp(_SHARPNESS * (nearness - nearness.max()))
        if rng.choice(len(VOICES), p=chances / chances.sum()) == VOICES.index(voice):
            return Speaker(_normalised(point), False)


def stretched(spoken: Spoken, size: float) -> Spoken:
    """The same speech by a larger (over 1) or smaller speaker: lower and slower, or the reverse."""
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
    """A corpus whose utterances are spoken by drawn speakers, each the same every time.

    Args:
        corpus: speech of the voices.
        seed: of the speakers.
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
        """What the speech depends on, beside the seed."""
        own = f"{zlib.crc32(Path(__file__).read_bytes()):08x}"
        return f"{self.corpus.digest}-{own}" if isinstance(self.corpus, Corpus) else own

    def spoken(self, start: int) -> Iterator[Drawn]:
        """Utterances from ``start`` on, in order; a corpus that is not on the disk is spoken by
        worker processes."""
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
    """``corpus`` by drawn speakers; one that is so already stays as it is."""
    return corpus if isinstance(corpus, Varied) else Varied(corpus, seed)


def speaker_of(spoken: Spoken) -> Speaker:
    """Who speaks."""
    return spoken.speaker if isinstance(spoken, Drawn) else voice_speaker(spoken.voice)


def statistics(hidden: int) -> NDArray[np.float16]:
    """``spk_stat``: standard deviations [hidden], then means [hidden]."""
    values = np.zeros(2 * hidden, np.float16)
    values[:COORDINATES] = STD
    return values


def _normalised(point: NDArray[np.float64]) -> NDArray[np.float32]:
    normalised: NDArray[np.float32] = (point / np.linalg.norm(point)).astype(np.float32)
    return normalised
