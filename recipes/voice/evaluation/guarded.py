"""Measure how many words the voice loses by itself, with and without the guard.

python -m recipes.voice.evaluation.guarded --count 1000

Held-out sentences, and texts of 60 words, are spoken with random voices, speeds and seeds. A
recogniser looks for every word. A request is spoken with the guard's report alone, and with its
retries.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ChatTTS.audio import check_words
from ChatTTS.params import InferCodeParams

from ..corpus import SPEEDS
from ..counter_rng import CounterRng
from ..processes import in_processes
from ..styles import CAST
from . import heldout
from .subject import Subject

SEED = 90_003  # of the requests; no corpus uses it
_TOGETHER = 64  # requests of a call


@dataclass(frozen=True)
class Spoken:
    """A request as it was spoken.

    Attributes:
        line: its text.
        faults: how many the guard found.
        attempts: how often its utterances were generated, all together.
        utterances: how many it has.
    """

    line: str
    waveform: NDArray[np.float32]
    faults: int
    attempts: int
    utterances: int


@dataclass(frozen=True)
class Heard:
    """The words of a request that the recogniser heard.

    Attributes:
        words: of the text, as far as its dictionary has them.
        wrong: of these, the words that were not heard, or more than once.
    """

    words: int
    wrong: int


def speak(
    subject: Subject, lines: Sequence[str], guard: str | None, temperature: float | None
) -> tuple[list[Spoken], float]:
    """Speak each line with a random voice and speed; return the results and the seconds it took."""
    found, seconds = [], 0.0
    for first in range(0, len(lines), _TOGETHER):
        part = lines[first : first + _TOGETHER]
        rng = CounterRng(SEED, first)
        given: dict[str, Any] = {} if temperature is None else {"temperature": temperature}
        params = InferCodeParams(
            spk_emb=rng.pick(tuple(CAST)),
            prompt=f"[speed_{rng.below(SPEEDS)}]",
            manual_seed=first,
            show_tqdm=False,
            ensure_non_empty=False,
            **given,
        )
        began = time.perf_counter()
        waves = subject.chat.infer(
            list(part), skip_refine_text=True, params_infer_code=params, guard=guard
        )
        seconds += time.perf_counter() - began
        for line, wave, row in zip(part, waves, waves.rows, strict=True):
            attempts = [utterance.attempts for utterance in row.utterances]
            found.append(Spoken(line, wave, len(row.faults), sum(attempts), len(attempts)))
    return found, seconds


def listen(spoken: Spoken) -> Heard:
    """Look for the words of a request in its sound; without sound, none is there."""
    if not len(spoken.waveform):
        words = len(spoken.line.split())
        return Heard(words, words)
    checked = check_words(spoken.waveform, spoken.line)
    wrong = {*checked.skipped, *checked.repeated}
    return Heard(sum(word.known for word in checked.words), len(wrong))


def table(rows: Sequence[tuple[Spoken, Heard]]) -> dict[str, str]:
    """Return what was found in some requests, by the name of the figure."""
    words, wrong = sum(heard.words for _, heard in rows), sum(heard.wrong for _, heard in rows)
    share = 100 * wrong / max(1, words)
    good = [bool(spoken.faults) for spoken, heard in rows if not heard.wrong]
    bad = [bool(spoken.faults) for spoken, heard in rows if heard.wrong]
    return {
        "words not heard, or heard twice": f"{wrong} of {words} ({share:.2f} %)",
        "requests with such words": f"{len(bad)} of {len(rows)}",
        "of these the guard found": f"{sum(bad)}",
        "alarms in other requests": f"{sum(good)} of {len(good)}",
        "attempts": f"{sum(spoken.attempts for spoken, _ in rows)} at "
        f"{sum(spoken.utterances for spoken, _ in rows)} utterances",
    }


def measure(
    subject: Subject, lines: Sequence[str], temperature: float | None, workers: int | None
) -> None:
    """Speak the lines with each guard, and print the figures."""
    plain = speak(subject, lines, None, temperature)[1]
    for guard in ("report", "retry"):
        spoken, seconds = speak(subject, lines, guard, temperature)
        heard = list(in_processes(listen, spoken, workers))
        print(f"guard={guard!r}: {seconds / plain:.2f} times the time without a guard")
        for name, figure in table(list(zip(spoken, heard, strict=True))).items():
            print(f"  {name}: {figure}")


def _command() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.voice.evaluation.guarded",
        description=(__doc__ or "").split("\n")[0],
    )
    parser.add_argument("--checkpoint", type=Path, help="folder that holds asset/")
    parser.add_argument("--count", type=int, default=1000, help="requests (default %(default)s)")
    parser.add_argument("--temperature", type=float, help="by default the checkpoint's")
    parser.add_argument("--workers", type=int, help="processes of the recogniser")
    given = parser.parse_args()
    subject = Subject(given.checkpoint)
    everyday, long = heldout.everyday(), heldout.long()
    run = partial(measure, subject, temperature=given.temperature, workers=given.workers)
    print(f"{given.count} sentences")
    run([everyday[number % len(everyday)] for number in range(given.count)])
    print(f"{given.count // 10} texts of 60 words")
    run([long[number % len(long)] for number in range(given.count // 10)])


if __name__ == "__main__":
    _command()
