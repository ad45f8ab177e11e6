"""What the evaluation measures of requests: whether the voice does what it is asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch

from . import texts
from .counter_rng import CounterRng
from .speech import LAUGH, LBREAK, UV_BREAK, speak
from .speech_metrics import Samples, silences, words
from .subject import Result, Subject
from .types import DEFAULT_SPEED, SAMPLE_RATE, SPEEDS, VOICES

SEED = 90_001  # of texts; no corpus has it
# Against the length of the teacher's speech.
_EARLY, _RUNAWAY = 0.6, 1.7
_PAUSE, _LULL = 0.15, 0.9  # seconds that a pause has at least; what is longer than a pause
_DEGREES = ((0, 0, 0), (0, 1, 4), (0, 2, 7), (5, 0, 0))  # oral, laugh, break


def speed(subject: Subject, count: int) -> Result:
    """Length over all sentences at each ``[speed_n]``, against that at the default."""
    lines = texts.everyday_heldout()[:count]
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
    """The longest silence inside a sentence with one ``[uv_break]`` in its middle, and without.
    Sentences with commas, where one pauses anyway, are left out."""
    plain = [line for line in texts.everyday_heldout() if len(words(line)) > 5 and "," not in line][
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
    """How much longer a sentence is with ``[laugh]`` behind it, in seconds."""
    lines = texts.everyday_heldout()[:count]
    plain = subject.say(lines)
    laughing = subject.say([f"{line} [laugh]" for line in lines])
    more = [(len(a) - len(b)) / SAMPLE_RATE for a, b in zip(laughing, plain, strict=True)]
    return {"sentences": len(lines), "median_seconds": round(float(np.median(more)), 2)}


def borders(subject: Subject, count: int) -> Result:
    """Faults where tags stand before, between and behind sentences, as users get them and with all
    of a text in one utterance."""
    lines = texts.everyday_heldout()
    pairs = list(zip(lines[:count], lines[count : 2 * count], strict=True))
    result: Result = {"sentences": len(pairs)}
    for tag in (UV_BREAK, LBREAK, LAUGH):
        places = {
            "before": [f"{tag} {first}" for first, _ in pairs],
            "between": [f"{first} {tag} {second}" for first, second in pairs],
            "behind": [f"{first} {tag}" for first, _ in pairs],
        }
        for place, asked in places.items():
            taught = [len(speak(line, VOICES[0]).samples) for line in asked]
            for way, splits in (("split", True), ("in_one_go", False)):
                waves = subject.waveforms(asked, split_text=splits)
                ends = zip(waves, waves.finish_reasons, taught, strict=True)
                faults = [fault for end in ends if (fault := _fault(*end))]
                result[f"{tag} {place}, {way}"] = len(faults)
    return result


def requests(subject: Subject, count: int) -> Result:
    """Random texts in random voices at random speeds: runaways, early ends, empty results."""
    faults: dict[str, list[str]] = {"runaway": [], "early": [], "empty": []}
    # Those of one voice and speed go in one call.
    groups: dict[tuple[str, int], list[str]] = {}
    for number in range(count):
        rng = CounterRng(SEED, number)
        line, voice, pace = texts.sentence(rng), rng.pick(VOICES), rng.below(SPEEDS)
        groups.setdefault((voice, pace), []).append(line)
    for seed, ((voice, pace), lines) in enumerate(groups.items()):
        waves = subject.waveforms(lines, spk_emb=voice, prompt=f"[speed_{pace}]", manual_seed=seed)
        for line, wave, reason in zip(lines, waves, waves.finish_reasons, strict=True):
            fault = _fault(wave, reason, len(speak(line, voice, pace).samples))
            if fault:
                faults[fault].append(line)
    return {
        "requests": count,
        **{name: len(lines) for name, lines in faults.items()},
        "texts": faults,
    }


def _fault(wave: Samples, reason: str | None, taught: int) -> str | None:
    """What is wrong with a result, if anything; ``taught`` is the length of the teacher's."""
    if not len(wave):
        return "empty"
    if reason != "stop" or len(wave) > _RUNAWAY * taught:
        return "runaway"
    return "early" if len(wave) < _EARLY * taught else None


def refining(subject: Subject, count: int) -> Result:
    """Refined texts: whether their words are kept where no fillers are asked for; and how many
    breaks, laughs and words of fillers come, beside the number that training would have put in."""
    lines = texts.everyday_heldout()[:count]
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
            texts.refine(line, oral, laugh, pause, CounterRng(SEED, number))
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
    """What refined texts have and plain ones have not."""
    joined = " ".join(refined)
    pairs = zip(refined, lines, strict=True)
    return {
        "breaks": joined.count("[uv_break]"),
        "laughs": joined.count("[laugh]"),
        "fillers": sum(max(0, len(words(a)) - len(words(b))) for a, b in pairs),
    }


def exactness(subject: Subject, count: int) -> Result:
    """Streams against whole results (bit by bit), and velocity against the standard engine (the
    largest difference of a sample)."""
    lines = texts.everyday_heldout()[:count]
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
    """Seconds of speech a second, one sentence at a time, after a first one that is not timed."""
    lines = texts.everyday_heldout()[:count]
    subject.say(lines[:1])
    begin = time.perf_counter()
    seconds = sum(len(subject.say([line])[0]) for line in lines) / SAMPLE_RATE
    took = time.perf_counter() - begin
    return {
        "sentences": len(lines),
        "threads": torch.get_num_threads(),
        "times_real_time": round(seconds / took, 2),
    }
