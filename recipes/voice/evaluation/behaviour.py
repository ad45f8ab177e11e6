"""Measurements of requests: whether the voice follows speeds, tags and other settings."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from ..arrangement import LAUGH, LBREAK, UV_BREAK
from ..corpus import DEFAULT_SPEED, SPEEDS
from ..counter_rng import CounterRng
from ..refining import refine
from ..styles import CAST
from ..units import SAMPLE_RATE
from . import heldout
from .speech_metrics import Samples, silences, words
from .subject import Result, Subject

SEED = 90_001  # of the requests; no corpus uses it
# Bounds of a length, relative to the length of the teacher's speech.
_EARLY, _RUNAWAY = 0.6, 1.7
_DEFAULT = next(iter(CAST))
_PAUSE, _LULL = 0.15, 0.9  # seconds: the shortest and longest pause; longer silences count apart
_DEGREES = ((0, 0, 0), (0, 1, 4), (0, 2, 7), (5, 0, 0))  # oral, laugh, break


def speed(subject: Subject, count: int) -> Result:
    """Measure the length of all sentences at each ``[speed_n]``, relative to the default speed."""
    lines = heldout.everyday()[:count]
    lengths = [
        sum(map(len, subject.say(lines, prompt=f"[speed_{n}]"))) / SAMPLE_RATE
        for n in range(SPEEDS)
    ]
    ratios = [round(length / max(1e-9, lengths[DEFAULT_SPEED]), 3) for length in lengths]
    return {
        "sentences": len(lines),
        "ratios": ratios,
        "wanted": [round(1.08 ** (DEFAULT_SPEED - n), 3) for n in range(SPEEDS)],
        "monotonic": bool(np.all(np.diff(lengths) < 0)),
    }


def pauses(subject: Subject, count: int) -> Result:
    """Measure the longest silence inside a sentence with ``[uv_break]`` in its middle, and without.

    Sentences with commas are left out, since commas make pauses too.
    """
    plain = [line for line in heldout.everyday() if len(words(line)) > 5 and "," not in line][
        :count
    ]
    broken = []
    for line in plain:
        parts = line.split()
        middle = len(parts) // 2
        broken.append(" ".join([*parts[:middle], "[uv_break]", *parts[middle:]]))
    result: Result = {"sentences": len(plain)}
    for name, lines in (("with", broken), ("without", plain)):
        found = np.array([max(silences(wave), default=0.0) for wave in subject.say(lines)])
        result[name] = {
            "milliseconds": np.round(1000 * found).astype(int).tolist(),
            "median": round(1000 * float(np.median(found))),
            "paused": round(100 * float(np.mean((found >= _PAUSE) & (found <= _LULL))), 1),
            "longer": int(np.sum(found > _LULL)),
        }
    return result


def laughs(subject: Subject, count: int) -> Result:
    """Measure how much longer ``[laugh]`` at its end makes a sentence, in seconds."""
    lines = heldout.everyday()[:count]
    plain = subject.say(lines)
    laughing = subject.say([f"{line} [laugh]" for line in lines])
    more = [(len(a) - len(b)) / SAMPLE_RATE for a, b in zip(laughing, plain, strict=True)]
    return {"sentences": len(lines), "median_seconds": round(float(np.median(more)), 2)}


def borders(subject: Subject, count: int) -> Result:
    """Count faults of texts with tags before, between and after sentences.

    Texts are spoken with the default settings, and with all of a text in one utterance.
    """
    lines = heldout.everyday()
    pairs = list(zip(lines[:count], lines[count : 2 * count], strict=True))
    result: Result = {"sentences": len(pairs)}
    for tag in (UV_BREAK, LBREAK, LAUGH):
        places = {
            "before": [f"{tag} {first}" for first, _ in pairs],
            "between": [f"{first} {tag} {second}" for first, second in pairs],
            "behind": [f"{first} {tag}" for first, _ in pairs],
        }
        for place, asked in places.items():
            taught = [subject.teacher.seconds(line, _DEFAULT) for line in asked]
            for way, splits in (("split", True), ("in_one_go", False)):
                waves = subject.waveforms(asked, split_text=splits)
                ends = zip(waves, waves.finish_reasons, taught, strict=True)
                faults = [fault for end in ends if (fault := _fault(*end))]
                result[f"{tag} {place}, {way}"] = len(faults)
    return result


def requests(subject: Subject, count: int) -> Result:
    """Count runaways, early ends and empty results of random texts, voices and speeds."""
    lines = (*heldout.everyday(), *heldout.mandarin())
    faults: dict[str, list[str]] = {"runaway": [], "early": [], "empty": []}
    # Texts of equal voice and speed go into one call.
    groups: dict[tuple[str, int], list[str]] = {}
    for number in range(count):
        rng = CounterRng(SEED, number)
        line, voice, pace = rng.pick(lines), rng.pick(tuple(CAST)), rng.below(SPEEDS)
        groups.setdefault((voice, pace), []).append(line)
    for seed, ((voice, pace), group) in enumerate(groups.items()):
        waves = subject.waveforms(group, spk_emb=voice, prompt=f"[speed_{pace}]", manual_seed=seed)
        for line, wave, reason in zip(group, waves, waves.finish_reasons, strict=True):
            fault = _fault(wave, reason, subject.teacher.seconds(line, voice, pace))
            if fault:
                faults[fault].append(line)
    return {
        "requests": count,
        **{name: len(found) for name, found in faults.items()},
        "texts": faults,
    }


def _fault(wave: Samples, reason: str | None, taught: float) -> str | None:
    """Return the fault of a result, if it has one; ``taught`` are the teacher's seconds."""
    if not len(wave):
        return "empty"
    seconds = len(wave) / SAMPLE_RATE
    if reason != "stop" or seconds > _RUNAWAY * taught:
        return "runaway"
    return "early" if seconds < _EARLY * taught else None


def refining(subject: Subject, count: int) -> Result:
    """Measure refined texts: kept words, and numbers of fillers, laughs and breaks.

    Without fillers, all words of the text should be kept. The numbers of breaks, laughs and words
    of fillers stand beside those that the training data would have.
    """
    lines = heldout.everyday()[:count]
    kept: list[bool] = []
    added: dict[str, dict[str, list[int]]] = {}
    for oral, laugh, pause in _DEGREES:
        degree = f"[oral_{oral}][laugh_{laugh}][break_{pause}]"
        settings = {"prompt": degree, "show_tqdm": False}
        found = [
            subject.chat.infer(
                line,
                refine_text_only=True,
                params_refine_text={**settings, "manual_seed": subject.seed + number},
            )
            for number, line in enumerate(lines)
        ]
        wanted = [
            refine(line, oral, laugh, pause, CounterRng(SEED, number))
            for number, line in enumerate(lines)
        ]
        if not oral:
            kept += [words(a) == words(b) for a, b in zip(found, lines, strict=True)]
        added[degree] = {
            what: [number, asked]
            for (what, number), asked in zip(
                _added(found, lines).items(), _added(wanted, lines).values(), strict=True
            )
        }
    return {
        "sentences": len(lines),
        "kept": round(100 * float(np.mean(kept)), 1),
        "added": added,
    }


def _added(refined: Sequence[str], lines: Sequence[str]) -> dict[str, int]:
    """Count what refined texts have in addition to the plain ones."""
    joined = " ".join(refined)
    pairs = zip(refined, lines, strict=True)
    return {
        "breaks": joined.count("[uv_break]"),
        "laughs": joined.count("[laugh]"),
        "fillers": sum(max(0, len(words(a)) - len(words(b))) for a, b in pairs),
    }


def exactness(subject: Subject, count: int) -> Result:
    """Compare streams to whole results bit by bit, and velocity to the standard engine.

    The second comparison gives the largest difference of a sample.
    """
    lines = heldout.everyday()[:count]
    standard = subject.load(use_vllm=False)
    settings = {"manual_seed": subject.seed, "show_tqdm": False}
    different, largest, other_lengths = 0, 0.0, 0
    for line in lines:
        (whole,) = subject.say([line])
        chunks = subject.chat.infer(
            line, stream=True, skip_refine_text=True, params_infer_code=settings
        )
        streamed = np.concatenate([chunk[0] for chunk in chunks])
        different += not np.array_equal(streamed, whole)
        (other,) = subject.say([line], standard)
        if len(other) != len(whole):
            other_lengths += 1
        elif len(whole):
            largest = max(largest, float(np.abs(other - whole).max()))
    return {
        "sentences": len(lines),
        "streams_that_differ": different,
        "engines_of_other_length": other_lengths,
        "largest_difference_of_engines": largest,
    }


def rate(subject: Subject, count: int) -> Result:
    """Measure seconds of speech per second, one sentence at a time, after one untimed sentence."""
    lines = heldout.everyday()[:count]
    subject.say(lines[:1])
    begin = time.perf_counter()
    seconds = sum(len(subject.say([line])[0]) for line in lines) / SAMPLE_RATE
    took = time.perf_counter() - begin
    return {
        "sentences": len(lines),
        "threads": torch.get_num_threads(),
        "times_real_time": round(seconds / took, 2),
    }
