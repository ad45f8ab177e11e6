"""The steadiness of a voice: what is heard of an utterance, and where it leaves what is usual."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..audio.samples import SAMPLE_RATE, Samples
from ..audio.trim import speech_bounds
from ..audio.voice_print import VoicePrint, print_distance, voice_print
from .loudness import measured

# Less speech than this has no voice that can be told from others.
_LEAST_SECONDS = 1.0
# A median needs so many utterances, or one that is odd decides it.
_FEWEST = 5
# Seconds of a sample prompt that is long enough to show the voice, and leaves room for the text.
_SHORTEST_SAMPLE, _LONGEST_SAMPLE = 2.0, 8.0
# The bounds of each trait; the usual utterance is far within them.
_MOST_DISTANCE = 3.0
_MOST_DECIBELS = 3.0
_MOST_PACE = 1.5
# A frame so much quieter than the loudest one belongs to a pause.
_PAUSE_DB = 35.0
_FRAME = SAMPLE_RATE // 100
# Chinese characters last about so many letters of an alphabet.
_LETTERS_A_HAN = 3.5
HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_TAG = re.compile(r"\[\w+\]")


class Trait(str, Enum):
    """A trait of speech that stays with a steady voice."""

    VOICE = "voice"
    LOUDNESS = "loudness"
    PACE = "pace"


@dataclass(frozen=True)
class Heard:
    """The traits of one utterance, as it is heard.

    Attributes:
        seconds: from its first sound to its last.
        voice_print: of these.
        loudness: of these, in LUFS.
        pace: seconds without its pauses for each letter.
    """

    seconds: float
    voice_print: VoicePrint
    loudness: float
    pace: float


def heard_in(samples: Samples, text: str) -> Heard | None:
    """Return what is heard of an utterance; ``None`` if it is too short to be judged.

    Args:
        samples: float32 (n,) at 24 kHz.
        text: that is spoken in it; control tags do not count.
    """
    start, stop = speech_bounds(samples, margin_s=0.0)
    speech, seconds = samples[start:stop], (stop - start) / SAMPLE_RATE
    letters = _letters(_TAG.sub("", text))
    if seconds < _LEAST_SECONDS or not letters:
        return None
    loudness, _ = measured([speech])
    if not math.isfinite(loudness):
        return None
    return Heard(seconds, voice_print(speech), loudness, _sounding(speech) / letters)


@dataclass(frozen=True)
class Usual:
    """The usual traits of a voice: medians over some of its utterances.

    Attributes:
        voice_print: as in :class:`Heard`.
        loudness: likewise.
        pace: likewise.
    """

    voice_print: VoicePrint
    loudness: float
    pace: float

    @classmethod
    def of(cls, utterances: Sequence[Heard]) -> Usual | None:
        """Return the usual traits; ``None`` for fewer than five utterances.

        A voice that changes between two is usually the one that speaks more of them.
        """
        if len(utterances) < _FEWEST:
            return None
        alike = max((_like(each, utterances) for each in utterances), key=len)
        return cls(
            np.median([each.voice_print for each in alike], axis=0),
            float(np.median([each.loudness for each in alike])),
            float(np.median([each.pace for each in alike])),
        )

    def most_usual(self, utterances: Sequence[Heard | None]) -> int | None:
        """Return the number of the utterance that is nearest to the usual voice.

        ``None`` if none has a length that suits a sample prompt.
        """
        distances = {
            number: print_distance(each.voice_print, self.voice_print, each.seconds)
            for number, each in enumerate(utterances)
            if each is not None and _SHORTEST_SAMPLE <= each.seconds <= _LONGEST_SAMPLE
        }
        return min(distances, key=lambda number: distances[number], default=None)

    def strangeness(self, heard: Heard) -> dict[Trait, float]:
        """Return how far each trait is from the usual; 1 is the bound of a steady voice."""
        distance = print_distance(heard.voice_print, self.voice_print, heard.seconds)
        return {
            Trait.VOICE: distance / _MOST_DISTANCE,
            Trait.LOUDNESS: abs(heard.loudness - self.loudness) / _MOST_DECIBELS,
            Trait.PACE: abs(math.log(heard.pace / self.pace)) / math.log(_MOST_PACE),
        }


def _like(one: Heard, utterances: Sequence[Heard]) -> list[Heard]:
    """Return the utterances in which the voice of one of them is heard, that one too."""

    def distance(other: Heard) -> float:
        shorter = min(one.seconds, other.seconds)
        return print_distance(one.voice_print, other.voice_print, shorter)

    return [other for other in utterances if distance(other) < _MOST_DISTANCE]


def _letters(text: str) -> float:
    han = len(HAN.findall(text))
    return sum(map(str.isalnum, text)) + (_LETTERS_A_HAN - 1) * han


def _sounding(speech: Samples) -> float:
    """Return the seconds of speech without its pauses."""
    frames = np.resize(speech.astype(np.float64), (max(1, len(speech) // _FRAME), _FRAME))
    energy = np.square(frames).mean(axis=1)
    return float((energy > energy.max() * 10 ** (-_PAUSE_DB / 10)).sum()) * _FRAME / SAMPLE_RATE
