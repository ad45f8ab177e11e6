"""Blends of voices: a voice between others, written ``anna:0.7,bert:0.3``.

The model gets the direction of a speaker vector alone: it is normalised first. So voices are points
on a sphere, and a blend is their weighted mean on it: the point from which the weighted directions
to the voices along the sphere cancel. Of two voices it lies on the shortest arc between them, at
the share of their weights. Where that mean is not unique, which needs voices further apart than a
quarter of the sphere, the blend is the direction of the weighted sum of the normalised vectors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import VoiceError, shown

if TYPE_CHECKING:  # the command's help needs the spelling alone
    import numpy as np
    from numpy.typing import NDArray

Part = tuple[str, float]
"""The name of a voice and its weight."""

MOST_PARTS = 8
"""Most voices of one blend."""

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_WEIGHTED = re.compile(rf"\A(.+)[:=]\s*{_NUMBER}")
_BRACKETED = re.compile(rf"\A(.+)\(\s*{_NUMBER}\s*\)")  # as clients of Kokoro write it
_STEPS = 100
_SMALL = 1e-12


def parse_blend(text: str) -> list[Part] | None:
    """Return the voices of a blend and their weights; ``None`` for a text that is no blend.

    Parts are separated by ``,`` or ``+``. A part is a name, ``name:weight``, ``name=weight`` or
    ``name(weight)``; a weight left out is 1.

    Raises:
        VoiceError: a part is empty, a weight is no number above 0, or there are too many parts.
    """
    parts = re.split(r"[,+]", text)
    if len(parts) < 2 and not (_WEIGHTED.fullmatch(text) or _BRACKETED.fullmatch(text)):
        return None
    if len(parts) > MOST_PARTS:
        raise VoiceError(f"a blend has at most {MOST_PARTS} voices, not {len(parts)}")
    return [_part(part.strip(), text) for part in parts]


def blend(voices: Sequence[NDArray[Any]], weights: Sequence[float]) -> NDArray[np.float32]:
    """Return a vector between others.

    Args:
        voices: vectors (H,), not zero; their lengths do not count.
        weights: one for each, above 0; their sum does not count.

    Returns:
        float32 (H,), of length 1.

    Raises:
        VoiceError: there are no voices, the vectors differ in size, a weight is not above 0, or
            the voices cancel each other.
    """
    import numpy as np

    if not voices or len(voices) != len(weights):
        raise VoiceError("a blend needs voices, and one weight for each")
    if not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise VoiceError("the weights of a blend must be numbers above 0")
    if len({np.shape(voice) for voice in voices}) != 1:
        raise VoiceError("the voices of a blend must be of one model: their vectors differ in size")
    points = np.stack([np.asarray(voice, np.float64).reshape(-1) for voice in voices])
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    shares = np.asarray(weights, np.float64)
    shares /= shares.sum()
    total = shares @ points
    length = np.linalg.norm(total)
    if length < math.sqrt(_SMALL):
        raise VoiceError("these voices are opposites and cancel each other: choose other weights")
    start = total / length
    mean = start
    if (points @ start > 0).all():  # within a quarter of the sphere the mean is unique
        mean = _mean(points, shares, start)
    result: NDArray[np.float32] = mean.astype(np.float32)
    return result


def blend_speakers(parts: Sequence[tuple[Mapping[str, Any], str, float]], width: int) -> str:
    """Return the speaker string of a blend.

    Args:
        parts: for each voice its fields of ``InferCodeParams``, its name, and its weight.
        width: H of the model.

    Raises:
        VoiceError: a voice is a sample prompt or belongs to another model; the message names it.
    """
    import torch

    from ..model.speaker import Speaker

    speaker = Speaker(width, "", torch.device("cpu"))
    vectors = []
    for fields, name, _ in parts:
        if "spk_emb" not in fields:
            raise VoiceError(
                f"the voice {shown(name)} is a recording (a sample prompt), which has no vector "
                "to blend: use voices that are speakers"
            )
        vectors.append(speaker.vector(fields["spk_emb"]))
    return speaker.encode(blend(vectors, [weight for _, _, weight in parts]))


def _part(part: str, text: str) -> Part:
    found = _BRACKETED.fullmatch(part) or _WEIGHTED.fullmatch(part)
    name, weight = (found[1].strip(), float(found[2])) if found else (part, 1.0)
    if not name or not weight > 0:
        raise VoiceError(
            f"{shown(text)} is not a blend of voices: write names and weights above 0, such as "
            "anna:0.7,bert:0.3"
        )
    return name, weight


def _mean(
    points: NDArray[np.float64], shares: NDArray[np.float64], start: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weighted mean on the sphere of unit vectors (N, H), from a point near it."""
    import numpy as np

    mean = start
    for _ in range(_STEPS):
        cosines = np.clip(points @ mean, -1.0, 1.0)
        angles = np.arccos(cosines)
        # sin(x) / x is 1 at 0: there the direction along the sphere is the straight one.
        factors = shares / np.sinc(angles / np.pi)
        step = factors @ (points - cosines[:, None] * mean)
        size = float(np.linalg.norm(step))
        if size < _SMALL:
            break
        mean = math.cos(size) * mean + math.sin(size) * step / size
        mean /= np.linalg.norm(mean)
    return mean
