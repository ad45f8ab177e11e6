"""Speak the cues of a film in their time, and compare them with plain speech of the same lines.

The lines are of this project. Their times have the shape of a film's: most of them 12 to 17 English
characters a second, or 4 to 6 Chinese ones; a tenth is tighter, and some are looser.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from ChatTTS.audio.samples import SAMPLE_RATE, Samples
from ChatTTS.audio.trim import speech_bounds
from ChatTTS.audio.word_check import check_words
from ChatTTS.core import Chat
from ChatTTS.longform.files import read_script
from ChatTTS.pipeline.results import DurationError, Fit, Waveforms

FILM = Path(__file__).with_name("film")
VOICES = {"en": ("clara", "miles"), "zh": ("lan", "ming")}
# Seconds that speech may begin after its time begins, and end before it ends.
_WITHIN = 0.02


def run_film(folder: Path, count: int = 100, seed: int = 0) -> dict[str, Any]:
    """Run both languages and return the figures.

    The sound of each cue is written to the folder, fitted and plain, with its text beside it, for
    judges of any kind.
    """
    chat = Chat()
    chat.load_or_raise("bundled", use_vllm=True)
    return {language: _measured(chat, folder, language, count, seed) for language in VOICES}


def _measured(chat: Chat, folder: Path, language: str, count: int, seed: int) -> dict[str, Any]:
    lines = read_script(FILM / f"{language}.srt").lines[:count]
    texts = [line.text for line in lines]
    durations = [line.shown or 0.0 for line in lines]
    fitted: list[Samples] = []
    plain: list[Samples] = []
    fits: list[Fit] = []
    attempts: list[int] = []
    for number, voice in enumerate(VOICES[language]):
        # Voices take turns, in blocks, so that a call has many lines.
        own = slice(number * len(lines) // 2, (number + 1) * len(lines) // 2)
        found = _spoken(chat, texts[own], durations[own], voice, seed)
        fitted += list(found)
        fits += [fit for fit in found.fits if fit is not None]
        attempts += [u.attempts for row in found.rows for u in row.utterances]
        plain += list(_spoken(chat, texts[own], None, voice, seed))
    for name, sounds in (("fitted", fitted), ("plain", plain)):
        _write(folder / f"{language}-{name}", sounds, texts)
    return {
        "cues": len(lines),
        **_times(fitted, plain, durations, fits),
        "attempts_mean": round(float(np.mean(attempts)), 2),
        **(_words(texts, fitted, plain, chat) if language == "en" else {}),
    }


def _spoken(
    chat: Chat, texts: Sequence[str], durations: Sequence[float] | None, voice: str, seed: int
) -> Waveforms:
    code = {"spk_emb": voice, "manual_seed": seed, "show_tqdm": False}
    try:
        found: Waveforms = chat.infer(
            list(texts), skip_refine_text=True, params_infer_code=code, duration=durations
        )
    except DurationError as error:
        found = error.waveforms or Waveforms([], [])
    return found


def _times(
    fitted: Sequence[Samples],
    plain: Sequence[Samples],
    durations: Sequence[float],
    fits: Sequence[Fit],
) -> dict[str, Any]:
    apart = [_apart(sound, seconds) for sound, seconds in zip(fitted, durations, strict=True)]
    ratios = [
        seconds / (_heard(sound) / SAMPLE_RATE)
        for sound, seconds in zip(plain, durations, strict=True)
    ]
    within = [each <= _WITHIN for each in apart]
    tempos = [abs(fit.tempo - 1) for fit in fits]
    kept = [tempo for tempo, good in zip(tempos, within, strict=True) if good]
    return {
        "time_over_plain_length": {
            "least": round(min(ratios), 2),
            "median": round(float(np.median(ratios)), 2),
            "most": round(max(ratios), 2),
        },
        "within_20_ms": sum(within),
        "within_20_ms_of_those_that_can": round(
            sum(within) / sum(not fit.late and fit.silence < _WITHIN for fit in fits), 3
        ),
        "exact_length": sum(
            len(sound) == round(seconds * SAMPLE_RATE)
            for sound, seconds in zip(fitted, durations, strict=True)
        ),
        "too_long": sum(fit.late > 0 for fit in fits),
        "too_short": sum(not fit.fits and not fit.late for fit in fits),
        "silence_of_too_short_s": [
            round(fit.silence, 2) for fit in fits if not fit.fits and not fit.late
        ],
        "tempo_unchanged": sum(tempo == 0 for tempo in kept),
        "tempo_change_mean": round(float(np.mean(kept)), 4),
        "tempo_change_most": round(max(kept), 4),
        "pauses_changed_mean_s": round(float(np.mean([abs(fit.pauses) for fit in fits])), 3),
    }


def _apart(sound: Samples, seconds: float) -> float:
    """Return how far the speech is from its time, at its beginning or its end, in seconds."""
    start, stop = speech_bounds(sound, margin_s=0.0)
    end = abs(round(seconds * SAMPLE_RATE) - stop)
    return max(start, end) / SAMPLE_RATE


def _heard(sound: Samples) -> int:
    start, stop = speech_bounds(sound, margin_s=0.0)
    return max(1, stop - start)


def _words(
    texts: Sequence[str], fitted: Sequence[Samples], plain: Sequence[Samples], chat: Chat
) -> dict[str, int]:
    """Return the words, and those that the recogniser misses in both kinds of speech."""
    counts = {"words": 0, "words_wrong": 0, "words_wrong_plainly": 0}
    for text, own, other in zip(texts, fitted, plain, strict=True):
        spoken = chat.normalizer(text, lang="en")
        for name, sound in (("words_wrong", own), ("words_wrong_plainly", other)):
            # The recogniser needs some silence around the words.
            found = check_words(np.pad(sound, SAMPLE_RATE // 4), spoken)
            counts[name] += len(found.skipped) + len(found.repeated)
        counts["words"] += len(found.words)
    return counts


def _write(folder: Path, sounds: Sequence[Samples], texts: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, (sound, text) in enumerate(zip(sounds, texts, strict=True)):
        soundfile.write(folder / f"{number:03}.wav", np.pad(sound, SAMPLE_RATE // 10), SAMPLE_RATE)
        (folder / f"{number:03}.txt").write_text(text + "\n", encoding="utf-8")
