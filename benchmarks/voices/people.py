"""The people of the measurements: voices that the bundled model learned, and strangers."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from ChatTTS.audio import save
from recipes.bundled_voice.speech import speak
from recipes.bundled_voice.types import SAMPLE_RATE, VOICES

Samples = NDArray[np.float32]


@dataclass(frozen=True)
class Person:
    """A voice: its name, and a function that speaks a line with it."""

    name: str
    say: Callable[[str], Samples]


def teachers() -> list[Person]:
    """Return the four voices that taught the bundled one."""
    return [Person(name, lambda line, name=name: speak(line, name).samples) for name in VOICES]  # type: ignore[misc]


def strangers() -> list[Person]:
    """Return voices that the bundled model never heard; those of espeak-ng where it is installed.

    The others are voices of flite with another throat: slower or faster speech, resampled.
    """
    people = [
        Person("rms, 15 % higher", lambda line: _stretched(line, "rms", 1.15, 3)),
        Person("slt, 13 % lower", lambda line: _stretched(line, "slt", 0.87, 7)),
    ]
    try:
        _espeak("hello", "en-us")
    except OSError:
        return people
    return [*people, Person("espeak-ng en-us", lambda line: _espeak(line, "en-us"))]


def record(folder: Path, person: Person, lines: Iterable[str], seconds: float) -> list[str]:
    """Write sound files with transcripts of about so many seconds; return the lines."""
    folder.mkdir(parents=True, exist_ok=True)
    total = 0.0
    said: list[str] = []
    for line in lines:
        if total >= seconds:
            break
        wave = person.say(line)
        save(folder / f"{len(said):03d}.wav", wave)
        (folder / f"{len(said):03d}.txt").write_text(line + "\n", encoding="utf-8")
        total += len(wave) / SAMPLE_RATE
        said.append(line)
    return said


def _stretched(line: str, voice: str, factor: float, speed: int) -> Samples:
    changed: Samples = soxr.resample(
        speak(line, voice, speed).samples, SAMPLE_RATE * factor, SAMPLE_RATE
    )
    return changed.astype(np.float32)


def _espeak(line: str, voice: str) -> Samples:
    done = subprocess.run(
        ["espeak-ng", "-v", voice, "-s", "160", "--stdout", line], capture_output=True, check=True
    )
    wave, rate = soundfile.read(io.BytesIO(done.stdout), dtype="float32")
    resampled: Samples = soxr.resample(wave, rate, SAMPLE_RATE).astype(np.float32)
    return resampled
