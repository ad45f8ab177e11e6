"""Laughter: the teacher has none, so it is made of its "ha ha ha ha" in the voice of the speaker.

The syllables follow each other faster than in speech, and fall in pitch and loudness. No
person's laugh is in the corpus, and it is no natural one: it is short, and in the voice.
"""

from __future__ import annotations

import numpy as np
import soxr
from numpy.typing import NDArray

from .units import SAMPLE_RATE

# What the teacher reads for a laugh; nothing else in a line is written so.
LAUGH_PHONEMES = "hˈɑhˌɑhˌɑhɑ!"
_PIECES = 4
# Of the first and the last piece: how much faster than the teacher it is played, and how loud.
_FASTER = (1.5, 1.12)
_LOUDER = (1.0, 0.45)
_FADE = 120  # samples, 5 ms
_PAUSE = 0.08  # seconds before and after
_QUIET = 0.02


def laughter(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a laugh made of speech that says ``LAUGH_PHONEMES``, float32 [n]."""
    sounding = np.flatnonzero(np.abs(samples) > _QUIET)
    if not len(sounding):
        return samples
    pieces = np.array_split(samples[sounding[0] : sounding[-1] + 1], _PIECES)
    silence = np.zeros(round(_PAUSE * SAMPLE_RATE), np.float32)
    made: list[NDArray[np.float32]] = [silence]
    for number, piece in enumerate(pieces):
        share = number / (_PIECES - 1)
        faster = _FASTER[0] + share * (_FASTER[1] - _FASTER[0])
        louder = _LOUDER[0] + share * (_LOUDER[1] - _LOUDER[0])
        played = soxr.resample(piece, SAMPLE_RATE * faster, SAMPLE_RATE)
        made.append(_faded(played) * np.float32(louder))
    laugh: NDArray[np.float32] = np.concatenate([*made, silence])
    return laugh


def _faded(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    fade = min(_FADE, len(samples) // 2)
    ramp = np.linspace(0, 1, fade, dtype=np.float32)
    faded: NDArray[np.float32] = samples.copy()
    faded[:fade] *= ramp
    faded[len(faded) - fade :] *= ramp[::-1]
    return faded
