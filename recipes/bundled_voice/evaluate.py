"""How good the voice is: every claim about it as a number, measured through the velocity engine.

python -m recipes.bundled_voice.evaluate --checkpoint DIR --out DIR/evaluation
python -m recipes.bundled_voice.evaluate --parts everyday speed --count 20
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import texts
from .chance import Dice
from .measures import Samples, silences, voice_print, words
from .report import write_report
from .run import Run
from .speech import speak
from .subject import Subject, error_rate
from .types import DEFAULT_SPEED, SAMPLE_RATE, SPEEDS, VOICES

logger = logging.getLogger(__name__)

SEED = 90_001  # of texts; no corpus has it
# Against the length of the teacher's speech.
_EARLY, _RUNAWAY = 0.6, 1.7
_PAUSE, _LULL = 0.15, 0.9  # seconds that a pause has at least; what is longer than a pause
_DEGREES = ((0, 0, 0), (0, 1, 4), (0, 2, 7), (5, 0, 0))  # oral, laugh, break

Result = dict[str, Any]


def _understood(subject: Subject, lines: Sequence[str]) -> Result:
    """Word error rates of the default voice, its teacher, the codec, and codes alone."""
    taught = [subject.teach(line, VOICES[0]) for line in lines]
    return {
        "sentences": len(lines),
        "spoken": subject.errors(lines, subject.say(lines)),
        "from_codes": subject.errors(lines, subject.say(lines, use_decoder=False)),
        "copied": subject.errors(lines, [subject.copy(wave) for wave in taught]),
        "teacher": subject.taught_errors(lines, VOICES[0]),
    }


def everyday(subject: Subject, count: int) -> Result:
    """Word error rate of held-out everyday sentences."""
    return _understood(subject, texts.everyday_heldout()[:count])


def unseen(subject: Subject, count: int) -> Result:
    """Word error rate of sentences full of words that training never contains."""
    return _understood(subject, texts.unseen_words()[:count])


def long(subject: Subject, count: int) -> Result:
    """Word error rate of sentences of sixty words."""
    return _understood_long(subject, texts.long_heldout()[:count])


def strung(subject: Subject, count: int) -> Result:
    """Word error rate of the everyday sentences strung together: what length alone does."""
    return _understood_long(subject, strings(texts.everyday_heldout())[:count])


def _understood_long(subject: Subject, lines: Sequence[str]) -> Result:
    """As users get them, in utterances of 200 characters; and each in one."""
    whole = subject.say(lines, split_text=False)
    return {**_understood(subject, lines), "in_one_go": subject.errors(lines, whole)}


def strings(lines: Sequence[str], most: int = texts.LONGEST) -> list[str]:
    """The sentences in their order, with commas between them, as sentences of ``most`` words at
    most; what is left at the end and is shorter than half of that is left out."""
    strung: list[list[str]] = [[]]
    for line in lines:
        if len(words(" ".join([*strung[-1], line]))) > most:
            strung.append([])
        strung[-1].append(line.rstrip(".?"))
    whole = [f"{', '.join(parts)}." for parts in strung]
    return [line for line in whole if len(words(line)) >= most / 2]


def voices(subject: Subject, count: int) -> Result:
    """Word error rate of each voice beside its teacher's."""
    lines = texts.everyday_heldout()[:count]
    return {
        voice: {
            "sentences": len(lines),
            "spoken": subject.errors(lines, subject.say(lines, spk_emb=voice)),
            "teacher": subject.taught_errors(lines, voice),
        }
        for voice in VOICES
    }


def similarity(subject: Subject, count: int) -> Result:
    """How like its teacher each voice is, whether it is told from the others, and how steady it
    is over a long text; the same where a sample prompt is all that says whose voice it is."""
    lines = texts.everyday_heldout()[:count]
    result: Result = {}
    for voice in VOICES:
        transcript = texts.everyday_heldout()[-1]
        sample = subject.chat.sample_audio_speaker(subject.teach(transcript, voice))
        said = {
            "speaker": subject.say(lines, spk_emb=voice),
            "sample": subject.say(lines, spk_smp=sample, txt_smp=transcript),
            "long_text": subject.say([" ".join(texts.everyday_heldout()[:12])], spk_emb=voice),
        }
        result[voice] = {
            "to": _means([subject.measure.similarities(w) for w in said["speaker"] if len(w)]),
            "identified": _identified(subject, said["speaker"], voice),
            "identified_from_sample": _identified(subject, said["sample"], voice),
            "steady": _steadiness(subject, said["long_text"][0]),
        }
    return result


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {v: round(float(np.mean([row[v] for row in rows])), 3) for v in VOICES} if rows else {}


def _identified(subject: Subject, waves: Sequence[Samples], voice: str) -> float:
    """Percent of the waves that are nearest to their own teacher."""
    hits = 0
    for wave in waves:
        if len(wave):
            near = subject.measure.similarities(wave)
            hits += max(near, key=lambda v: near[v]) == voice
    return round(100 * hits / max(1, len(waves)), 1)


def _steadiness(subject: Subject, wave: Samples) -> float | None:
    """The least similarity of five seconds of a long text to all the others; ``None`` where it has
    less than ten."""
    size = 5 * SAMPLE_RATE
    starts = range(0, len(wave) - size + 1, size)
    if len(starts) < 2:
        return None
    likeness = (
        subject.measure.similarity(
            voice_print(wave[i : i + size]),
            voice_print(np.concatenate([wave[:i], wave[i + size :]])),
        )
        for i in starts
    )
    return round(min(likeness), 3)


def random_speakers(subject: Subject, count: int) -> Result:
    """Speech of random speakers: is it understood, and which voices does it lie between?"""
    lines = texts.everyday_heldout()[:10]
    waves, nearest = [], []
    for number in range(count):
        torch.manual_seed(number)
        said = subject.say(lines, spk_emb=subject.chat.sample_random_speaker())
        waves += said
        near = subject.measure.similarities(np.concatenate([*said, np.zeros(4096, np.float32)]))
        nearest.append(max(near, key=lambda v: near[v]))
    heard = subject.hear(waves)  # all at once: recognisers take a while to start
    size = len(lines)
    rates = [error_rate(lines, heard[size * n : size * (n + 1)]) for n in range(count)]
    return {
        "speakers": count,
        "sentences": len(lines),
        "mean": round(float(np.mean(rates)), 2),
        "worst": max(rates),
        "nearest": {voice: nearest.count(voice) for voice in VOICES},
    }


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


def requests(subject: Subject, count: int) -> Result:
    """Random texts in random voices at random speeds: runaways, early ends, empty results."""
    faults: dict[str, list[str]] = {"runaway": [], "early": [], "empty": []}
    # Those of one voice and speed go in one call.
    groups: dict[tuple[str, int], list[str]] = {}
    for number in range(count):
        dice = Dice(SEED, number)
        line, voice, pace = texts.sentence(dice), dice.pick(VOICES), dice.below(SPEEDS)
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
            texts.refine(line, oral, laugh, pause, Dice(SEED, number))
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


@dataclass(frozen=True)
class Part:
    """What can be measured by itself, and on how many sentences, requests or speakers."""

    measure: Callable[[Subject, int], Result]
    count: int


PARTS = {
    "everyday": Part(everyday, 200),
    "unseen": Part(unseen, 50),
    "long": Part(long, 20),
    "strung": Part(strung, 12),
    "voices": Part(voices, 200),
    "similarity": Part(similarity, 30),
    "random": Part(random_speakers, 20),
    "speed": Part(speed, 40),
    "pauses": Part(pauses, 50),
    "laughs": Part(laughs, 30),
    "requests": Part(requests, 500),
    "refining": Part(refining, 50),
    "exactness": Part(exactness, 10),
    "rate": Part(rate, 20),
}


def evaluate(
    subject: Subject, out: Path, parts: Sequence[str] | None = None, count: int | None = None
) -> dict[str, Result]:
    """Measure ``parts``, and write ``results.json``, ``table.md`` and pictures.

    Results of the same checkpoint that are in ``results.json`` already are kept, those of another
    one are not.

    Args:
        parts: by name, measured even if they were before; by default those that were not.
        count: sentences, requests or speakers of a part at most; each has its own number.
    """
    path = out / "results.json"
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Result] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if results.get("checkpoint", {}).get("checksum") != subject.checksum:
        results = {"checkpoint": {"checksum": subject.checksum, "counts": {}}}
    counts = results["checkpoint"]["counts"]
    numbers = {name: min(part.count, count or part.count) for name, part in PARTS.items()}
    missing = [name for name in PARTS if counts.get(name) != numbers[name]]
    for name in missing if parts is None else parts:
        begin = time.monotonic()
        results[name] = PARTS[name].measure(subject, numbers[name])
        counts[name] = numbers[name]
        logger.info("%s: %s (%.0f s)", name, results[name], time.monotonic() - begin)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        os.replace(partial, path)
    write_report(results, out)
    return results


def main(run: Run) -> None:
    """Measure everything about the checkpoint of a run that was not measured yet."""
    evaluate(Subject(run.out), run.out / "evaluation")


def _command() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.bundled_voice.evaluate", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        help="folder that holds asset/ (default: the voice in the package)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("evaluation"), help="folder of the results"
    )
    parser.add_argument(
        "--parts",
        nargs="+",
        choices=PARTS,
        help="what to measure (default: all that was not measured of this checkpoint yet)",
    )
    parser.add_argument("--count", type=int, help="sentences of a part at most")
    parser.add_argument("--workers", type=int, help="processes that recognise (default: all cores)")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    subject = Subject(given.checkpoint, given.workers)
    evaluate(subject, given.out, given.parts, given.count)


if __name__ == "__main__":
    _command()
