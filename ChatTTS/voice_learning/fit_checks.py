"""Checks that transcripts fit their recordings, and that one person speaks in all of them.

Both are seen by the model that will learn. A recording is far likelier after its own transcript
than after the same ids in reverse order; after a wrong transcript it is not. And recordings of one
person agree on which of several speakers are likelier: their profiles, the likelihoods by speaker,
differ by little more than a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import VoiceError
from .language_model import LanguageModel
from .likelihood import unlikelihoods
from .recordings import LeftOut
from .sequences import CodeSequence

LEAST_GAIN = 0.25
"""Nats a code by which its own transcript makes a recording likelier.

With an earlier bundled voice right transcripts gained 0.7 to 1.6, and wrong ones 0.2 at most.
"""

_FEW_IDS = 3  # before the text and the one after it, which stay where they are
_MOST_WRONG = 0.5  # share of wrong transcripts beyond which nothing is learned

# With that voice ten single voices had at most 0.15 nats and 2.1 times the spread, and of 36
# mixtures of two of them all but one at least 0.26 nats and 2.9 times.
_LEAST_SEPARATION = 2.6  # of the groups' distance to the spread in them
_LEAST_DISTANCE = 0.17  # nats; nearer groups are one voice for this model
_FEW = 0.25  # share of the recordings; as few of another person are left out
_NAMED = 8


def wrong_transcripts(
    model: LanguageModel,
    sequences: Sequence[CodeSequence],
    names: Sequence[str],
    speaker: Tensor,
) -> list[LeftOut]:
    """Return the recordings whose transcripts do not fit.

    A transcript that is equal backwards, as one of a single id is, cannot be judged and is kept.

    Args:
        model: the model that will learn.
        sequences, names: of the recordings.
        speaker: the vector [hidden] that makes them likeliest up to now.

    Raises:
        VoiceError: most do not fit; it names them.
    """
    own, _ = unlikelihoods(model, sequences, [speaker] * len(sequences))
    turned = [_reversed(s) for s in sequences]
    backwards, _ = unlikelihoods(model, turned, [speaker] * len(own))
    gains = backwards - own
    is_judged = [not np.array_equal(t.ids, s.ids) for t, s in zip(turned, sequences, strict=True)]
    wrong = [
        LeftOut(
            name,
            f"its transcript does not match: it makes the sound likelier by {gain:.2f} nats per "
            f"code than the same words backwards, and a right one by {LEAST_GAIN:g} or more",
        )
        for name, gain, judged in zip(names, gains, is_judged, strict=True)
        if judged and gain < LEAST_GAIN
    ]
    if len(wrong) > _MOST_WRONG * len(names):
        raise VoiceError(
            f"{len(wrong)} of {len(names)} transcripts do not match their recordings "
            f"({_listed([each.name for each in wrong])}): they are not what is said, or the "
            "recordings are not speech, or are speech of a language or kind that this checkpoint "
            "was not trained on"
        )
    return wrong


@dataclass(frozen=True)
class Grouping:
    """The two groups that recordings are most easily divided into.

    Attributes:
        second: the indices of the smaller one.
        distance: between the groups' mean profiles, in nats.
        spread: of the profiles within the groups.
    """

    second: tuple[int, ...]
    distance: float
    spread: float

    @property
    def is_real(self) -> bool:
        """Return whether different people speak in them."""
        return self.distance > max(_LEAST_DISTANCE, _LEAST_SEPARATION * self.spread)


def other_speakers(profiles: NDArray[np.float64], names: Sequence[str]) -> list[LeftOut]:
    """Return the few recordings in which another person speaks.

    Args:
        profiles: nats a code by recording and speaker, [recordings, speakers].
        names: of the recordings.

    Raises:
        VoiceError: they are not few; it names the groups.
    """
    found = grouping(profiles)
    if found is None or not found.is_real:
        return []
    others = [names[index] for index in found.second]
    if len(others) > _FEW * len(names):
        first = [name for name in names if name not in set(others)]
        raise VoiceError(
            f"several people speak in these recordings: {_listed(first)} are alike, and so are "
            f"{_listed(others)}. Give the recordings of one person, or confirm that they are "
            "(one_speaker)"
        )
    reason = f"another person speaks than in the others (they differ by {found.distance:.2f} nats)"
    return [LeftOut(name, reason) for name in others]


def grouping(profiles: NDArray[np.float64]) -> Grouping | None:
    """Divide recordings into two groups of alike profiles; ``None`` for fewer than three."""
    count = len(profiles)
    if count < 3:
        return None
    centred = profiles - profiles.mean(axis=1, keepdims=True)
    # Two means, from the two recordings that differ most: no draw is needed.
    apart = np.linalg.norm(centred[:, None] - centred[None], axis=-1)
    one, other = np.unravel_index(int(apart.argmax()), apart.shape)
    centres = centred[[one, other]]
    for _ in range(count):
        nearest = np.linalg.norm(centred[:, None] - centres[None], axis=-1).argmin(axis=1)
        if len(set(nearest.tolist())) < 2:
            return None
        moved = np.stack([centred[nearest == group].mean(axis=0) for group in (0, 1)])
        if np.array_equal(moved, centres):
            break
        centres = moved
    scale = profiles.shape[1] ** 0.5
    spread = np.sqrt(np.square(centred - centres[nearest]).sum() / (count - 2)) if count > 2 else 0
    smaller = int((nearest == 1).sum() <= count / 2)
    return Grouping(
        tuple(np.flatnonzero(nearest == smaller).tolist()),
        float(np.linalg.norm(centres[0] - centres[1]) / scale),
        float(spread / scale),
    )


def _reversed(sequence: CodeSequence) -> CodeSequence:
    """Return the sequence with its text's ids in reverse order."""
    ids = sequence.ids.copy()
    ids[_FEW_IDS:-1] = ids[_FEW_IDS:-1][::-1]
    return replace(sequence, ids=ids)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
