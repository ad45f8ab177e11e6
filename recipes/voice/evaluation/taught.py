"""Speech of the teacher, to compare the voice with: any text, named voice and speed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ChatTTS.errors import AssetError
from ChatTTS.text.pronunciation.phonemes import spaced
from ChatTTS.text.tags import without_tags

from ..arrangement import LAUGH, LBREAK, UV_BREAK, TagShares, Utterance, arranged
from ..corpus import DEFAULT_SPEED, Request
from ..counter_rng import CounterRng
from ..export import ALIGNMENT_DELAY
from ..lines import phonemes_of, pronouncer
from ..styles import CAST, mixture
from ..takes import Line
from ..teacher import Teacher, TeacherFiles, assemble
from ..units import SAMPLE_RATE

# Where the README of the recipe puts the teacher.
FOLDER = Path("build/voice")
# What a tag adds to the length of speech: the mean of its pauses, and a laugh.
_TAG_SECONDS = {UV_BREAK: 0.35, LBREAK: 0.68, LAUGH: 1.0}
_NO_TAGS = TagShares(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass
class Taught:
    """The teacher in the voices of the cast.

    Attributes:
        folder: with ``teacher/`` as the README says; gets the joined model.
    """

    folder: Path = FOLDER
    _spoken: dict[tuple[str, str, int], Utterance] = field(default_factory=dict, repr=False)

    def speak(self, text: str, voice: str, speed: int = DEFAULT_SPEED) -> Utterance:
        """Return a text as the model learns it: little silence at both ends, whole code frames.

        Args:
            text: normalised, without control tags.
            voice: one of ``CAST``.
            speed: n of ``[speed_n]``.

        Raises:
            AssetError: the teacher is not there.
        """
        key = text, voice, speed
        if key not in self._spoken:
            person = CAST[voice]
            line = Line(text, person.language, phonemes_of(text))
            asked = Request(line, mixture(person.weights), speed)
            take = self._teacher.speak(asked.line, asked.weights, asked.pace)
            self._spoken[key] = arranged(take, CounterRng(0, 0), _NO_TAGS)
        return self._spoken[key]

    def seconds(self, text: str, voice: str, speed: int = DEFAULT_SPEED) -> float:
        """Return about how long a text with control tags takes, which the teacher does not know.

        Raises:
            AssetError: the teacher is not there.
        """
        tags = sum(seconds * text.count(tag) for tag, seconds in _TAG_SECONDS.items())
        words = " ".join(without_tags(text).split())
        if not pronouncer(words):
            return tags
        return tags + len(self.speak(words, voice, speed).samples) / SAMPLE_RATE

    @cached_property
    def _teacher(self) -> Teacher:
        source = self.folder / "teacher"
        parts = TeacherFiles(self.folder / "teacher.onnx", source / "vocab.json", source / "voices")
        if not parts.symbols.is_file():
            raise AssetError(f"{source} has no teacher: recipes/voice/README.md says how to get it")
        assemble(parts.model)
        return Teacher(parts)


def character_seconds(text: str, said: Utterance) -> NDArray[np.float64]:
    """Return the second at which the teacher began each character, float64 [characters].

    A character without a sound of its own has the time of what was said before it. The sound begins
    before the teacher's frame of it, by ``ALIGNMENT_DELAY``.
    """
    starts = np.full(len(text), -1.0)
    place = 0
    for piece, is_apart in spaced(pronouncer(text)):
        place += is_apart
        seconds = max(0.0, said.starts[place] / SAMPLE_RATE - ALIGNMENT_DELAY)
        starts[piece.start : piece.end] = seconds
        place += len(piece.phonemes)
    return np.maximum.accumulate(starts.clip(0))
