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
from recipes.voice.evaluation.taught import Taught
from recipes.voice.styles import CAST
from recipes.voice.units import SAMPLE_RATE

Samples = NDArray[np.float32]

# n of [speed_n] of speech that resampling makes as fast as ordinary speech: for a higher voice, and
# for a lower one.
_SPEEDS = {True: 3, False: 7}


@dataclass(frozen=True)
class Person:
    """A voice: its name, and a function that speaks a line with it."""

    name: str
    say: Callable[[str], Samples]


def teachers(teacher: Taught) -> list[Person]:
    """Return the English voices of the teacher that are built into the bundled one."""
    return [
        Person(name, lambda line, name=name: teacher.speak(line, name).samples)  # type: ignore[misc]
        for name, person in CAST.items()
        if person.language == "en"
    ]


def strangers(teacher: Taught) -> list[Person]:
    """Return voices that the bundled model never heard; those of espeak-ng where it is installed.

    The others are voices of the teacher with another throat: slower or faster speech, resampled.
    """
    people = [
        Person("clara, 15 % higher", lambda line: changed_throat(teacher, line, "clara", 1.15)),
        Person("miles, 13 % lower", lambda line: changed_throat(teacher, line, "miles", 0.87)),
    ]
    try:
        _espeak("hello", "en-us")
    except OSError:
        return people
    return [*people, Person("espeak-ng en-us", lambda line: _espeak(line, "en-us"))]


def changed_throat(teacher: Taught, line: str, voice: str, factor: float) -> Samples:
    """Return a line in a voice whose pitch and formants are ``factor`` times as high."""
    spoken = teacher.speak(line, voice, _SPEEDS[factor > 1]).samples
    changed: Samples = soxr.resample(spoken, SAMPLE_RATE * factor, SAMPLE_RATE)
    return changed.astype(np.float32)


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


def _espeak(line: str, voice: str) -> Samples:
    done = subprocess.run(
        ["espeak-ng", "-v", voice, "-s", "160", "--stdout", line], capture_output=True, check=True
    )
    wave, rate = soundfile.read(io.BytesIO(done.stdout), dtype="float32")
    resampled: Samples = soxr.resample(wave, rate, SAMPLE_RATE).astype(np.float32)
    return resampled
