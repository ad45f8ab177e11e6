"""The parts of the measurement; each returns what goes into the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ChatTTS import voices
from ChatTTS.errors import VoiceError
from ChatTTS.voice_learning.learning import LearnedVoice
from recipes.voice.evaluation import heldout
from recipes.voice.evaluation.speech_metrics import voice_print
from recipes.voice.evaluation.subject import Result, Subject
from recipes.voice.evaluation.taught import Taught

from .people import Person, Samples, record

_TEST, _LEARNED, _CENTRE = slice(0, 60), slice(60, 150), slice(170, 200)
_LEAST_SECONDS = 0.2
_SAMPLE_SECONDS = 9.0  # of the recording that a sample prompt is made from


@dataclass
class Bench:
    """The means by which all parts measure.

    Attributes:
        folder: for recordings.
        sentences: the number of held-out sentences that each voice speaks.
        seed: of learning and of speech.
        teacher: of the bundled voice.
    """

    folder: Path
    sentences: int
    seed: int
    teacher: Taught

    @cached_property
    def subject(self) -> Subject:
        """The bundled voice on velocity, with its teachers and a recogniser."""
        return Subject(seed=self.seed, workers=0, teacher=self.teacher)

    @property
    def lines(self) -> list[str]:
        """Sentences that no vector was learned from."""
        return list(heldout.everyday()[_TEST][: self.sentences])

    def learn(self, person: Person, seconds: float, **options: Any) -> LearnedVoice:
        """Learn from so many seconds of a person."""
        folder = self.folder / f"{person.name}-{seconds:g}"
        record(folder, person, heldout.everyday()[_LEARNED], seconds)
        return voices.learn(
            self.subject.chat, folder, seed=self.seed, show_tqdm=False, say=print, **options
        )

    def sample(self, person: Person) -> dict[str, str]:
        """Return the sample prompt of a person, as fields of ``InferCodeParams``."""
        waves: list[Samples] = []
        said = []
        for line in heldout.everyday()[_LEARNED]:
            waves.append(person.say(line))
            said.append(line)
            if sum(map(len, waves)) >= _SAMPLE_SECONDS * 24_000:
                break
        sample = self.subject.chat.sample_audio_speaker(np.concatenate(waves), trim=True)
        return {"spk_smp": sample, "txt_smp": " ".join(said)}

    def judged(self, waves: Sequence[Samples], centre: NDArray[np.float64]) -> Result:
        """Return likeness to a voice print, and the word error rate.

        Waveforms of less than ``_LEAST_SECONDS`` have no voice print; their words are wrong.
        """
        similarity = self.subject.voice_similarity
        voiced = [wave for wave in waves if len(wave) >= _LEAST_SECONDS * 24_000]
        near = [similarity.similarity(voice_print(wave), centre) for wave in voiced]
        return {
            "likeness": round(float(np.mean(near)), 3),
            "word_error_rate": self.subject.errors(self.lines, waves),
        }

    def centre(self, person: Person) -> NDArray[np.float64]:
        """Return the mean voice print of a person."""
        lines = heldout.everyday()[_CENTRE]
        mean: NDArray[np.float64] = np.mean([voice_print(person.say(line)) for line in lines], 0)
        return mean

    def spoken(self, **voice: Any) -> list[Samples]:
        """Speak the held-out sentences."""
        return self.subject.say(self.lines, **voice)


def person(bench: Bench, who: Person, lengths: Sequence[float], built_in: bool) -> Result:
    """Learn a person from each length of speech, and compare with the other ways to that voice."""
    centre = bench.centre(who)
    own = [who.say(line) for line in bench.lines]
    result: Result = {
        "the person": bench.judged(own, centre),
        "through the codec": bench.judged([bench.subject.through_codec(w) for w in own], centre),
    }
    if built_in:
        result["built-in vector"] = bench.judged(bench.spoken(spk_emb=who.name), centre)
    else:
        try:
            nearest = bench.learn(who, max(lengths), from_sample=True)
        except VoiceError as error:
            return {**result, "refused": str(error)}
        result["nearest built-in vector"] = {
            "name": nearest.began_at,
            "nats": round(nearest.held_before, 4),
            **bench.judged(bench.spoken(spk_emb=nearest.before), centre),
        }
        result["learned from it"] = {
            "nats": round(nearest.held, 4),
            **bench.judged(bench.spoken(spk_emb=nearest.speaker), centre),
        }
    result["sample prompt"] = bench.judged(bench.spoken(**bench.sample(who)), centre)
    for seconds in lengths:
        found = bench.learn(who, seconds)
        result[f"learned from {seconds:g} s"] = {
            "nats_before": round(found.held_before, 4),
            "nats": round(found.held, 4),
            "seconds": round(found.seconds, 1),
            "speaker": found.speaker,
            **bench.judged(bench.spoken(spk_emb=found.speaker), centre),
        }
    return result


def recovered(bench: Bench, number: int, seconds: float) -> Result:
    """Learn a random speaker of the model from its own speech."""
    chat = bench.subject.chat
    torch.manual_seed(1000 + number)
    true = chat.sample_random_speaker()
    itself = Person(f"random-{number}", lambda line: bench.subject.say([line], spk_emb=true)[0])
    centre = bench.centre(itself)
    is_several = False
    try:
        found = bench.learn(itself, seconds)
    except VoiceError:  # between voices, the model speaks a sentence in one and the next in another
        is_several = True
        found = bench.learn(itself, seconds, one_speaker=True)
    vectors = [chat.speaker.vector(string) for string in (true, found.before, found.speaker)]
    return {
        "taken_for_several": is_several,
        "itself": bench.judged(bench.spoken(spk_emb=true, manual_seed=99), centre),
        "before": {
            "cosine": round(float(vectors[0] @ vectors[1]), 3),
            "nats": round(found.held_before, 4),
            **bench.judged(bench.spoken(spk_emb=found.before), centre),
        },
        "learned": {
            "cosine": round(float(vectors[0] @ vectors[2]), 3),
            "nats": round(found.held, 4),
            "seconds": round(found.seconds, 1),
            "speaker": found.speaker,
            **bench.judged(bench.spoken(spk_emb=found.speaker), centre),
        },
    }
