"""The space of speakers: mixtures of the teacher's voices, in few coordinates.

The teacher speaks in the style of a vector, and a weighted sum of its voices' vectors is a new
person. So the speakers of the recipe are mixtures, also with weights below 0. Their coordinates are
the principal axes of the voices' vectors, scaled so that the voices vary by about one in each:

- Coordinates are linear in the weights, so blends move evenly from one speaker to the other.
- A draw of every coordinate from a normal distribution, which is how ``sample_random_speaker()``
  works, is a mixture too. The teacher can speak as it, so the model is trained on such draws.
- The voices of the first cast count more than the others when the axes are chosen, and are kept
  best.

The package normalises a speaker's vector before the model reads it, which would lose its length.
So one more coordinate is the same for all speakers: what is left is the direction of (constant,
coordinates), from which all coordinates can be told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The teacher's voices of English (American a, British b; f for women, m for men) and Mandarin (z).
VOICES = (
    "af_alloy", "af_aoede", "af_bella", "af_heart", "af_jessica", "af_kore", "af_nicole", "af_nova",
    "af_river", "af_sarah", "af_sky", "am_adam", "am_echo", "am_eric", "am_fenrir", "am_liam",
    "am_michael", "am_onyx", "am_puck", "am_santa", "bf_alice", "bf_emma", "bf_isabella", "bf_lily",
    "bm_daniel", "bm_fable", "bm_george", "bm_lewis", "zf_xiaobei", "zf_xiaoni", "zf_xiaoxiao",
    "zf_xiaoyi", "zm_yunjian", "zm_yunxi", "zm_yunxia", "zm_yunyang",
)  # fmt: skip
COORDINATES = 20
# The row of the voices' tables that the axes are found in. Rows belong to texts of a length, and
# differ much less than voices do.
_ROW = 100
# How often a founder counts when the axes are chosen; each other voice counts once.
_FOUNDER_COUNTS = 6.0
# The standard deviation of each coordinate of random speakers. The voices vary by one, but draws
# that far out in all coordinates at once are further from the centre than most voices.
RANDOM_SPREAD = 0.7
# The coordinate that all speakers share; about as long as the others together.
_CONSTANT = 3.0


@dataclass(frozen=True)
class Person:
    """A named voice.

    Attributes:
        language: its first language, ``en`` or ``zh``.
        weights: share of each of the teacher's voices; they add up to 1.
    """

    language: str
    weights: Mapping[str, float]


# The mixtures that the axes of the space keep best: the first cast. Checkpoints of which one goes
# on from the other share a space, so later casts leave these as they are.
FOUNDERS = (
    {"af_heart": 0.75, "af_sarah": 0.25},
    {"am_michael": 0.5, "am_eric": 0.5},
    {"bf_emma": 1.0},
    {"bm_fable": 0.6, "bm_george": 0.4},
    {"zf_xiaoni": 0.5, "zf_xiaoxiao": 0.25, "af_heart": 0.25},
    {"zm_yunjian": 0.7, "bm_fable": 0.3},
    {"zf_xiaobei": 0.7, "bf_isabella": 0.3},
    {"zm_yunyang": 0.7, "am_eric": 0.3},
)

# The named voices; the first is the default. A judge of naturalness and a recogniser chose them by
# what the trained model says with them, which is not as good in all voices as the teacher.
CAST: Mapping[str, Person] = {
    "clara": Person("en", {"af_nova": 0.35, "af_alloy": 0.35, "af_heart": 0.3}),
    "miles": Person("en", {"am_michael": 0.5, "am_eric": 0.5}),
    "edith": Person("en", {"bf_emma": 0.65, "af_alloy": 0.35}),
    "hugh": Person("en", {"bm_fable": 0.6, "bm_george": 0.4}),
    "lan": Person("zh", {"zf_xiaobei": 0.5, "af_nova": 0.5}),
    "ming": Person("zh", {"zm_yunjian": 0.7, "bm_fable": 0.3}),
    "yue": Person("zh", {"zf_xiaobei": 0.5, "bf_emma": 0.5}),
    "bo": Person("zh", {"zm_yunyang": 0.5, "zm_yunjian": 0.3, "am_michael": 0.2}),
}


def mixture(shares: Mapping[str, float]) -> Floats:
    """Return weights [voices] that add up to 1, in proportion to the shares of some voices."""
    weights = np.zeros(len(VOICES))
    for voice, share in shares.items():
        weights[VOICES.index(voice)] = share
    proportional: Floats = weights / weights.sum()
    return proportional


@dataclass(frozen=True, eq=False)
class StyleSpace:
    """The coordinates of speakers.

    Build it with :meth:`of`.

    Attributes:
        centre: weights [voices] of the speaker whose coordinates are all 0.
        axes: [voices, coordinates]; ``centre + axes @ place`` are the weights of a place.
        places: [voices, coordinates], where the teacher's voices are.
    """

    centre: Floats
    axes: Floats
    places: Floats

    @classmethod
    def of(cls, tables: NDArray[np.float32], coordinates: int = COORDINATES) -> StyleSpace:
        """Return the space of voices.

        Args:
            tables: style vectors of all voices, [voices, rows, 256].
            coordinates: number of axes, at most the number of voices less one.
        """
        vectors = tables[:, _ROW].astype(np.float64)
        counts = np.ones(len(vectors))
        for shares in FOUNDERS:
            counts += (_FOUNDER_COUNTS - 1) * mixture(shares)
        centre = counts / counts.sum()
        roots = np.sqrt(centre)[:, None]
        away = roots * (vectors - centre @ vectors)
        left, _, _ = np.linalg.svd(away, full_matrices=False)
        # The sign of an axis is arbitrary: let the first voice lie on its upper side.
        left = left[:, :coordinates] * np.where(left[0, :coordinates] < 0, -1.0, 1.0)
        return cls(centre, roots * left, left / roots)

    def place(self, weights: NDArray[np.floating]) -> Floats:
        """Return the coordinates of mixtures [..., voices], as [..., coordinates]."""
        return weights @ self.places

    def weights(self, place: NDArray[np.floating]) -> Floats:
        """Return weights [..., voices] of a place [..., coordinates]; they add up to 1."""
        found: Floats = self.centre + place @ self.axes.T
        return found


def speaker_vector(place: NDArray[np.floating], hidden: int) -> NDArray[np.float32]:
    """Return the vector [hidden] of a speaker, normalised as the model reads it."""
    vector = np.zeros(hidden)
    vector[0] = _CONSTANT
    vector[1 : 1 + len(place)] = place
    normalised: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
    return normalised


def speaker_place(vector: NDArray[np.floating], coordinates: int = COORDINATES) -> Floats:
    """Return the coordinates of a speaker's vector [hidden] of any length."""
    place: Floats = _CONSTANT * vector[1 : 1 + coordinates].astype(np.float64) / vector[0]
    return place


def statistics(hidden: int) -> NDArray[np.float16]:
    """Return ``spk_stat``: standard deviations [hidden], then means [hidden]."""
    values = np.zeros(2 * hidden, np.float16)
    values[1 : 1 + COORDINATES] = RANDOM_SPREAD
    values[hidden] = _CONSTANT
    return values
