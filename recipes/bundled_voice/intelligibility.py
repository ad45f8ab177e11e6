"""Measurements of intelligibility: how many words a speech recogniser gets wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from . import texts
from .speech_metrics import words
from .subject import Result, Subject, error_rate
from .types import VOICES


def everyday(subject: Subject, count: int) -> Result:
    """Measure the word error rate of held-out everyday sentences."""
    return _understood(subject, texts.everyday_heldout()[:count])


def unseen(subject: Subject, count: int) -> Result:
    """Measure the word error rate of sentences full of words that training never contains."""
    return _understood(subject, texts.unseen_words()[:count])


def long(subject: Subject, count: int) -> Result:
    """Measure the word error rate of sentences of sixty words."""
    return _understood_long(subject, texts.long_heldout()[:count])


def strung(subject: Subject, count: int) -> Result:
    """Measure the word error rate of everyday sentences joined together: the effect of length."""
    return _understood_long(subject, strings(texts.everyday_heldout())[:count])


def voices(subject: Subject, count: int) -> Result:
    """Measure the word error rate of each voice and of its teacher."""
    lines = texts.everyday_heldout()[:count]
    return {
        voice: {
            "sentences": len(lines),
            "spoken": subject.errors(lines, subject.say(lines, spk_emb=voice)),
            "teacher": subject.teacher_errors(lines, voice),
        }
        for voice in VOICES
    }


def random_speakers(subject: Subject, count: int) -> Result:
    """Measure the word errors of random speakers, and the voices that they lie between."""
    lines = texts.everyday_heldout()[:10]
    waves, nearest = [], []
    for number in range(count):
        torch.manual_seed(number)
        said = subject.say(lines, spk_emb=subject.chat.sample_random_speaker())
        waves += said
        near = subject.voice_similarity.similarities(
            np.concatenate([*said, np.zeros(4096, np.float32)])
        )
        nearest.append(max(near, key=lambda v: near[v]))
    heard = subject.recognise(waves)  # all at once: recognisers take a while to start
    size = len(lines)
    rates = [error_rate(lines, heard[size * n : size * (n + 1)]) for n in range(count)]
    return {
        "speakers": count,
        "sentences": len(lines),
        "mean": round(float(np.mean(rates)), 2),
        "worst": max(rates),
        "nearest": {voice: nearest.count(voice) for voice in VOICES},
    }


def strings(lines: Sequence[str], most: int = texts.LONGEST) -> list[str]:
    """Join sentences in order, with commas, into sentences of at most ``most`` words.

    A last one that is shorter than half of that is left out.
    """
    strung: list[list[str]] = [[]]
    for line in lines:
        if len(words(" ".join([*strung[-1], line]))) > most:
            strung.append([])
        strung[-1].append(line.rstrip(".?"))
    whole = [f"{', '.join(parts)}." for parts in strung]
    return [line for line in whole if len(words(line)) >= most / 2]


def _understood(subject: Subject, lines: Sequence[str]) -> Result:
    """Return word error rates of the default voice, its teacher, the codec, and codes alone."""
    taught = [subject.teacher_speech(line, VOICES[0]) for line in lines]
    return {
        "sentences": len(lines),
        "spoken": subject.errors(lines, subject.say(lines)),
        "from_codes": subject.errors(lines, subject.say(lines, use_decoder=False)),
        "copied": subject.errors(lines, [subject.through_codec(wave) for wave in taught]),
        "teacher": subject.teacher_errors(lines, VOICES[0]),
    }


def _understood_long(subject: Subject, lines: Sequence[str]) -> Result:
    """Return word error rates with the default utterances of 200 characters, and without cuts."""
    whole = subject.say(lines, split_text=False)
    return {**_understood(subject, lines), "in_one_go": subject.errors(lines, whole)}
