"""Measurements of intelligibility: how many words a speech recogniser of English gets wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..styles import CAST
from . import heldout
from .subject import Result, Subject, error_rate

_DEFAULT = next(iter(CAST))


def everyday(subject: Subject, count: int) -> Result:
    """Measure the word error rate of held-out everyday sentences."""
    return _understood(subject, heldout.everyday()[:count])


def rare(subject: Subject, count: int) -> Result:
    """Measure the word error rate of held-out sentences with rare words."""
    return _understood(subject, heldout.rare()[:count])


def strung(subject: Subject, count: int) -> Result:
    """Measure the word error rate of everyday sentences joined together: the effect of length."""
    return _understood_long(subject, heldout.long()[:count])


def voices(subject: Subject, count: int) -> Result:
    """Measure the word error rate of each voice and of its teacher."""
    lines = heldout.everyday()[:count]
    return {
        voice: {
            "sentences": len(lines),
            "spoken": subject.errors(lines, subject.say(lines, spk_emb=voice)),
            "teacher": subject.teacher_errors(lines, voice),
        }
        for voice in CAST
    }


def random_speakers(subject: Subject, count: int) -> Result:
    """Measure the word errors of random speakers."""
    lines = heldout.everyday()[:10]
    waves = []
    for number in range(count):
        torch.manual_seed(number)
        waves += subject.say(lines, spk_emb=subject.chat.sample_random_speaker())
    heard = subject.recognise(waves)  # all at once: recognisers take a while to start
    size = len(lines)
    rates = [error_rate(lines, heard[size * n : size * (n + 1)]) for n in range(count)]
    return {
        "speakers": count,
        "sentences": len(lines),
        "mean": round(float(np.mean(rates)), 2),
        "worst": max(rates),
    }


def _understood(subject: Subject, lines: Sequence[str]) -> Result:
    """Return word error rates of the default voice, its teacher, the codec, and codes alone."""
    taught = [subject.teacher_speech(line, _DEFAULT) for line in lines]
    return {
        "sentences": len(lines),
        "spoken": subject.errors(lines, subject.say(lines)),
        "from_codes": subject.errors(lines, subject.say(lines, use_decoder=False)),
        "copied": subject.errors(lines, [subject.through_codec(wave) for wave in taught]),
        "teacher": subject.teacher_errors(lines, _DEFAULT),
    }


def _understood_long(subject: Subject, lines: Sequence[str]) -> Result:
    """Return word error rates with the default utterances of 200 characters, and without cuts."""
    whole = subject.say(lines, split_text=False)
    return {**_understood(subject, lines), "in_one_go": subject.errors(lines, whole)}
