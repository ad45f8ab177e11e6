"""Speak a book in several voices, with and without the guard of a steady voice, and compare.

Each voice speaks every few paragraphs, so all are heard from the beginning of the work to its end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.core import Chat
from ChatTTS.longform.files import read_script
from ChatTTS.longform.script import Join, Line, Script
from ChatTTS.longform.settings import ReadSettings, Role
from ChatTTS.longform.steadiness import Heard, Trait, Usual, heard_in
from recipes.voice.texts import sentences

from .book import chapters

# Of the bundled voice: four people who read English, and one who reads Mandarin.
_ENGLISH, _MANDARIN = ("clara", "miles", "edith", "hugh"), "lan"
_SENTENCES = 4  # of a Mandarin paragraph
# Characters that a voice speaks in a second.
_CHARACTERS, _HAN = 14.0, 4.5


@dataclass(frozen=True)
class SteadySettings:
    """The book that is spoken.

    Attributes:
        folder: for the utterances of both readings.
        minutes: of speech, about.
        script: an English book in place of the recipe's sentences.
        model: folder of a checkpoint; random speakers read it. The bundled voice without it.
        seeds: of these speakers.
    """

    folder: Path
    minutes: float = 125.0
    script: Path | None = None
    model: Path | None = None
    seeds: Sequence[int] = (1, 4, 5, 7, 8)


def run_steady(settings: SteadySettings) -> dict[str, Any]:
    """Run both readings and return the figures of each voice."""
    chat = Chat()
    roles = _loaded(chat, settings)
    script = Script(tuple(_lines(settings, list(roles))))
    return {
        name: _reading(chat, script, roles, steady, settings.folder / name)
        for name, steady in (("before", None), ("after", "retry"))
    }


def _loaded(chat: Chat, settings: SteadySettings) -> dict[str, Role]:
    """Load the model; return the voices that read."""
    if settings.model is None:
        chat.load_or_raise("bundled", use_vllm=True)
        return {name: Role(name) for name in (*_ENGLISH, _MANDARIN)}
    chat.load_or_raise("custom", custom_path=str(settings.model), use_vllm=True)
    roles = {}
    for seed in settings.seeds:
        torch.manual_seed(seed)
        roles[f"random {seed}"] = Role(chat.sample_random_speaker())
    return roles


def _lines(settings: SteadySettings, voices: Sequence[str]) -> Iterator[Line]:
    """Yield the paragraphs, the voices in turns, until each has its share of the time."""
    share = 60 * settings.minutes / len(voices)
    left = dict.fromkeys(voices, share)
    english, mandarin = iter(_english(settings)), iter(_mandarin())
    while any(seconds > 0 for seconds in left.values()):
        for voice in voices:
            if left[voice] <= 0:
                continue
            line = next(mandarin if voice == _MANDARIN else english, None)
            if line is None:
                return
            left[voice] -= len(line.text) / (_HAN if voice == _MANDARIN else _CHARACTERS)
            yield replace(line, voice=voice, chapter=0, join=Join.PARAGRAPH)


def _english(settings: SteadySettings) -> Iterator[Line]:
    if settings.script is not None:
        yield from read_script(settings.script).lines
        return
    for chapter in chapters(2 * settings.minutes, 1):
        yield from map(Line, chapter.paragraphs)


def _mandarin() -> Iterator[Line]:
    texts = sentences("zh")
    for first in range(0, len(texts), _SENTENCES):
        yield Line("".join(texts[first : first + _SENTENCES]))


def _reading(
    chat: Chat, script: Script, roles: dict[str, Role], steady: str | None, folder: Path
) -> dict[str, Any]:
    began = time.perf_counter()
    said: dict[str, list[tuple[Samples, str]]] = {voice: [] for voice in roles}
    reading = ReadSettings(voices=roles, steady=steady)
    with chat.read(script, reading) as recording:
        for line, spoken in recording.spoken_lines():
            at = 0
            for part in spoken.parts:
                said[line.voice or ""].append((spoken.samples[at : at + part.samples], part.text))
                at += part.samples
    seconds = time.perf_counter() - began
    hours = sum(len(sound) for each in said.values() for sound, _ in each) / SAMPLE_RATE / 3600
    for voice, each in said.items():
        _write(folder / voice, each)
    return {
        "hours": round(hours, 3),
        "seconds": round(seconds, 1),
        **{voice: _figures(each) for voice, each in said.items()},
    }


def _figures(said: Sequence[tuple[Samples, str]]) -> dict[str, Any]:
    """Return how steady the utterances of a voice are."""
    heard = [each for sound, text in said if (each := heard_in(sound, text)) is not None]
    usual = Usual.of(heard)
    if usual is None:
        return {"utterances": len(heard)}
    strange = [usual.strangeness(each) for each in heard]
    loudness = np.array([each.loudness for each in heard]) - usual.loudness
    pace = np.array([each.pace for each in heard]) / usual.pace
    return {
        "utterances": len(heard),
        "outside": {trait.value: sum(each[trait] > 1 for each in strange) for trait in Trait},
        "farthest_voice": round(3 * max(each[Trait.VOICE] for each in strange), 2),
        "loudness_deviation_db": round(float(loudness.std()), 2),
        "loudness_range_db": [round(float(v), 1) for v in (loudness.min(), loudness.max())],
        "pace_deviation": round(float(pace.std()), 3),
        "first_and_last_quarter": _trend(heard),
    }


def _trend(heard: Sequence[Heard]) -> dict[str, float]:
    """Return how the last quarter of the work differs from its first."""
    size = max(1, len(heard) // 4)
    first, last = Usual.of(heard[:size]), Usual.of(heard[-size:])
    if first is None or last is None:
        return {}
    print_apart = last.strangeness(replace(heard[0], voice_print=first.voice_print, seconds=9.0))
    return {
        "voice": round(3 * print_apart[Trait.VOICE], 2),
        "loudness_db": round(last.loudness - first.loudness, 2),
        "pace": round(last.pace / first.pace, 3),
    }


def _write(folder: Path, said: Sequence[tuple[Samples, str]]) -> None:
    """Write the utterances with their texts, for judges of any kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (sound, text) in enumerate(said):
        soundfile.write(folder / f"{number:04}.wav", sound, SAMPLE_RATE)
        (folder / f"{number:04}.txt").write_text(text + "\n", encoding="utf-8")
