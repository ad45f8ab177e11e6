"""Automatic measurements of speech: recognised words, similarity of voices, pauses."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import soxr
import torch
from numpy.typing import NDArray

from ChatTTS.errors import ConfigError

from ..features import log_mel
from ..units import HOP, SAMPLE_RATE

Samples = NDArray[np.float32]
_HEARD_RATE = 16_000
_CEPSTRA = 20
_TAG = re.compile(r"\[\w+\]")
_SILENCE = 0.02  # relative to the loudest moment


def words(text: str) -> list[str]:
    """Return the words of a text, without tags and marks."""
    return re.findall(r"[a-z']+", _TAG.sub(" ", text.lower()))


def edits(expected: Sequence[str], found: Sequence[str]) -> int:
    """Return how many words must be changed, added or removed to turn one list into the other."""
    row = list(range(len(found) + 1))
    for i, word in enumerate(expected, 1):
        row, above = [i], row
        for j, other in enumerate(found, 1):
            row.append(min(above[j - 1] + (word != other), above[j] + 1, row[-1] + 1))
    return row[-1]


@dataclass(frozen=True)
class WordErrors:
    """The number of word errors in several texts."""

    wrong: int
    total: int

    @property
    def rate(self) -> float:
        """Word error rate in percent."""
        return 100 * self.wrong / max(1, self.total)


def word_errors(texts: Sequence[str], heard: Sequence[Sequence[str]]) -> WordErrors:
    """Count the word errors of recognised words against the texts."""
    expected = [words(text) for text in texts]
    wrong = sum(edits(e, h) for e, h in zip(expected, heard, strict=True))
    return WordErrors(wrong, sum(map(len, expected)))


def recognise(samples: Samples) -> list[str]:
    """Return the words that pocketsphinx's English model recognises in samples at 24 kHz.

    Raises:
        ConfigError: pocketsphinx is not installed.
    """
    if not len(samples):
        return []
    wave = soxr.resample(samples, SAMPLE_RATE, _HEARD_RATE)
    # Its adaptation to the last utterance must not influence this one.
    decoder = _recogniser()
    decoder.reinit_feat()
    decoder.start_utt()
    decoder.process_raw((np.clip(wave, -1, 1) * 32767).astype(np.int16).tobytes(), full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    return words(re.sub(r"\(\d+\)", "", hypothesis.hypstr)) if hypothesis else []


@lru_cache(maxsize=1)
def _recogniser() -> Any:
    try:
        decoder = importlib.import_module("pocketsphinx").Decoder
    except ImportError as error:
        raise ConfigError(
            "measuring word error rates needs the package pocketsphinx: pip install pocketsphinx"
        ) from error
    return decoder(samprate=_HEARD_RATE, loglevel="FATAL")


def voice_print(samples: Samples) -> NDArray[np.float64]:
    """Return means and standard deviations [40] of 20 cepstra of the log-mel, without loudness.

    Only the loudest 70 % of the frames count.
    """
    mel = log_mel()(torch.from_numpy(samples)[None])[0].double().numpy()  # [bins, frames]
    loudness = mel.mean(axis=0)
    loud = mel[:, loudness >= np.quantile(loudness, 0.3)]
    bins = np.arange(len(mel))
    orders = np.arange(1, _CEPSTRA + 1)
    cosines = np.cos(np.pi * orders[:, None] * (bins + 0.5) / len(mel)) * (2 / len(mel)) ** 0.5
    cepstra = cosines @ loud
    return np.concatenate([cepstra.mean(axis=1), cepstra.std(axis=1)])


@dataclass(frozen=True, eq=False)
class VoiceSimilarity:
    """The similarity of voices: the cosine of two standardised voice prints.

    Over the teacher's voices, each standardised value has mean 0 and standard deviation 1.

    Attributes:
        centres: by voice, the mean print of the teacher.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    centres: dict[str, NDArray[np.float64]]

    @classmethod
    def of(cls, prints: dict[str, list[NDArray[np.float64]]]) -> VoiceSimilarity:
        """Build it from the teacher's prints of each voice."""
        centres = {voice: np.mean(values, axis=0) for voice, values in prints.items()}
        everything = np.concatenate([np.stack(values) for values in prints.values()])
        return cls(everything.mean(axis=0), everything.std(axis=0) + 1e-6, centres)

    def similarity(self, one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
        """Return the similarity of two prints, -1 to 1."""
        a, b = (one - self.mean) / self.scale, (other - self.mean) / self.scale
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b) + 1e-12))

    def similarities(self, samples: Samples) -> dict[str, float]:
        """Return the similarity of samples to each of the teacher's voices."""
        mine = voice_print(samples)
        return {voice: self.similarity(mine, centre) for voice, centre in self.centres.items()}


def silences(samples: Samples) -> list[float]:
    """Return the silences between sounds, in seconds; those at both ends are left out."""
    frames = len(samples) // HOP
    loud = np.sqrt(np.square(samples[: frames * HOP].reshape(frames, HOP)).mean(axis=1))
    if not frames or not loud.max():
        return []
    sounding = np.flatnonzero(loud > _SILENCE * loud.max())
    gaps = np.diff(sounding) - 1
    return [float(gap) * HOP / SAMPLE_RATE for gap in gaps if gap > 0]
