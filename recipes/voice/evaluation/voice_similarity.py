"""Measurements of voices: their similarity to the teacher's voices, and their steadiness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..styles import CAST
from ..units import SAMPLE_RATE
from . import heldout
from .speech_metrics import Samples, voice_print
from .subject import Result, Subject


def similarity(subject: Subject, count: int) -> Result:
    """Measure each voice's similarity to its teacher, its identification and its steadiness.

    Steadiness is measured over a long text. Identification is measured also with a sample prompt in
    place of the speaker.
    """
    lines = heldout.everyday()[:count]
    result: Result = {}
    for voice in CAST:
        transcript = heldout.everyday()[-1]
        spoken = subject.teacher_speech(transcript, voice)
        sample = subject.chat.sample_audio_speaker(spoken, trim=True)
        said = {
            "speaker": subject.say(lines, spk_emb=voice),
            "sample": subject.say(lines, spk_smp=sample, txt_smp=transcript),
            "long_text": subject.say([" ".join(heldout.everyday()[:12])], spk_emb=voice),
        }
        result[voice] = {
            "to": _means(
                [subject.voice_similarity.similarities(w) for w in said["speaker"] if len(w)]
            ),
            "identified": _identified(subject, said["speaker"], voice),
            "identified_from_sample": _identified(subject, said["sample"], voice),
            "steady": _steadiness(subject, said["long_text"][0]),
        }
    return result


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {v: round(float(np.mean([row[v] for row in rows])), 3) for v in CAST} if rows else {}


def _identified(subject: Subject, waves: Sequence[Samples], voice: str) -> float:
    """Return the percentage of waves that are nearest to their own teacher."""
    hits = 0
    for wave in waves:
        if len(wave):
            near = subject.voice_similarity.similarities(wave)
            hits += max(near, key=lambda v: near[v]) == voice
    return round(100 * hits / max(1, len(waves)), 1)


def _steadiness(subject: Subject, wave: Samples) -> float | None:
    """Return the least similarity of five seconds of a long text to the rest of it.

    It is ``None`` for less than ten seconds of speech.
    """
    size = 5 * SAMPLE_RATE
    starts = range(0, len(wave) - size + 1, size)
    if len(starts) < 2:
        return None
    likeness = (
        subject.voice_similarity.similarity(
            voice_print(wave[i : i + size]),
            voice_print(np.concatenate([wave[:i], wave[i + size :]])),
        )
        for i in starts
    )
    return round(min(likeness), 3)
