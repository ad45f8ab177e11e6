"""Listen to a work with the recogniser: are the subtitles in step, are the words right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from ChatTTS.audio.samples import SAMPLE_RATE
from ChatTTS.audio.word_check import check_words

# Seconds of sound on both sides of the words that are looked for.
_MARGIN = 0.25
# A longer pause ends a stretch of words; so do so many words.
_PAUSE, _MOST = 0.55, 60


@dataclass(frozen=True)
class Stretch:
    """Words of the subtitles that follow one another: texts, and starts in seconds."""

    words: tuple[str, ...]
    starts: tuple[float, ...]
    end: float


def stretches(subtitles: Path) -> list[Stretch]:
    """Return the words of a JSON file of subtitles, in stretches between pauses."""
    words = json.loads(subtitles.read_text(encoding="utf-8"))["words"]
    return [_stretch(group) for group in _groups(words)]


def in_step(sound: Path, chosen: Sequence[Stretch]) -> dict[str, Any]:
    """Return how far words are from where the recogniser hears them begin, in milliseconds.

    Args:
        sound: a wav at 24 kHz.
        chosen: the stretches that are listened to.
    """
    errors: list[float] = []
    words = wrong = lost = 0
    for stretch in chosen:
        start = max(0.0, stretch.starts[0] - _MARGIN)
        first, last = round(start * SAMPLE_RATE), round((stretch.end + _MARGIN) * SAMPLE_RATE)
        samples, _ = soundfile.read(sound, start=first, stop=last, dtype="float32")
        heard = check_words(samples, " ".join(stretch.words))
        if len(heard.words) != len(stretch.words):
            continue  # a word that the recogniser counts as two
        if len(heard.skipped) == len(heard.words):
            lost += 1  # the recogniser gave up on all of it
            continue
        words += len(heard.words)
        wrong += len(heard.skipped) + len(heard.repeated)
        errors += [
            1000 * (told - start - word.times[0][0])
            for told, word in zip(stretch.starts, heard.words, strict=True)
            if len(word.times) == 1
        ]
    apart = np.array(errors)
    return {
        "words": words,
        "wrong": wrong,
        "stretches_given_up": lost,
        "median_ms": round(float(np.median(apart)), 1),
        "median_apart_ms": round(float(np.median(np.abs(apart))), 1),
        "p95_apart_ms": round(float(np.percentile(np.abs(apart), 95)), 1),
        "within_200_ms": round(float(np.mean(np.abs(apart) <= 200)), 4),
    }


def _groups(words: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    for word in words:
        if group and (word["start"] - group[-1]["end"] > _PAUSE or len(group) >= _MOST):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _stretch(group: Sequence[dict[str, Any]]) -> Stretch:
    return Stretch(
        tuple(word["text"] for word in group),
        tuple(word["start"] for word in group),
        group[-1]["end"],
    )
