"""Measure how well the guard finds faults of speech, and how often it finds one that is not there.

python -m recipes.voice.evaluation.faults --count 300

Faults are made on purpose, so that each is known. The voice speaks a changed text: without some
words, with words said twice, without its end, or with more words behind it. If a recogniser hears
exactly that text, the frames are read by the model as speech of the unchanged text. What the model
looks at then is what it looks at when its own draws lead it into that fault. Wordless sound is a
frame that lasts for a second and a half.

Odd requests choose the limits, and even ones tell how good they are.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ChatTTS.audio import check_words
from ChatTTS.model.generation import Cancellation, Delta, GenerationRequest
from ChatTTS.model.standard.engine import embed_prompt
from ChatTTS.model.tokenizer import spoken_part
from ChatTTS.pipeline.alignment.faults import FaultFinder, FaultKind, FrameFault, Limits
from ChatTTS.pipeline.alignment.word_aligner import WordAligner
from ChatTTS.text.alignment import text_columns
from ChatTTS.text.spoken_words import caller_words

from ..corpus import SPEEDS
from ..counter_rng import CounterRng
from ..styles import CAST
from . import heldout
from .subject import Subject

SEED = 90_002  # of the requests; no corpus uses it
_HELD = 70  # frames of wordless sound
_SHORTEST = 3  # words; a longer sentence can lose some
_GOOD = "good"

# Limits that are tried, each beside the usual values of the others.
TRIED: dict[str, tuple[float, ...]] = {
    "min_heard": (0.3, 0.45, 0.6, 0.75, 0.9),
    "max_left_out": (1, 2, 3, 4, 5),
    "min_end": (1, 3, 5, 7),
    "max_away": (2, 3, 4, 5, 6),
    "max_tail": (16, 24, 32, 48),
    "max_held": (28, 36, 48, 60),
}


@dataclass(frozen=True)
class Case:
    """Speech with a fault that is known.

    Attributes:
        kind: of the fault, or ``good``.
        line: the text that it is taken for.
        said: the text that it is.
    """

    number: int
    kind: str
    line: str
    said: str


def cases(count: int) -> Iterator[Case]:
    """Yield requests: each sentence as it is, and with a fault of one kind."""
    lines = [line for line in heldout.everyday() if len(line.split()) > _SHORTEST]
    lines += heldout.long()
    kinds = [kind.value for kind in FaultKind]
    for number in range(count):
        rng = CounterRng(SEED, number)
        line, kind = rng.pick(lines), kinds[number // 2 % len(kinds)]
        yield Case(number, _GOOD, line, line)
        yield Case(number, kind, line, changed(line, kind, rng, rng.pick(lines)))


def changed(line: str, kind: str, rng: CounterRng, other: str) -> str:
    """Return a sentence with a fault made of words; ``other`` gives the words of a tail."""
    words = line.rstrip(".?!").split()
    run = min(rng.integer(1, 3), len(words) - 2)
    first = rng.integer(0, len(words) - run - 1)
    if kind == FaultKind.SKIPPED.value:
        words = words[:first] + words[first + run :]
    elif kind == FaultKind.REPEATED.value:
        words = words[: first + run] + words[first:]
    elif kind == FaultKind.CUT.value:
        words = words[:-run]
    elif kind == FaultKind.TAIL.value:
        words += other.rstrip(".?!").split()[: run + 2]
    return " ".join(words).rstrip(",") + line[-1]


@dataclass
class Tap:
    """An engine that keeps the requests and the frames of the one that it passes them to."""

    inner: Any
    requests: list[GenerationRequest] = field(default_factory=list)
    frames: dict[int, list[torch.Tensor]] = field(default_factory=dict)

    def generate(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation
    ) -> Iterator[list[Delta]]:
        self.requests, self.frames = list(requests), {}
        for deltas in self.inner.generate(requests, cancelled):
            for delta in deltas:
                self.frames.setdefault(delta.index, []).append(delta.ids)
            yield deltas

    def close(self) -> None:
        self.inner.close()


class Reader:
    """Reads frames as the speech of a text, and collects what the model looks at.

    Args:
        subject: the voice.
    """

    def __init__(self, subject: Subject) -> None:
        self._chat = subject.load(use_vllm=False)
        self._model = self._chat._loaded
        engine: Any = self._model.gpt.engine
        self._llama, self._embed = engine.observed, engine.embed
        self._llama.config._attn_implementation = "eager"  # the one that gives probabilities

    @torch.inference_mode()
    def finder(
        self, line: str, request: GenerationRequest, codes: NDArray[np.int64]
    ) -> FaultFinder:
        """Return what was collected from ``codes`` [frames, codebooks] as an answer to a request.

        Args:
            line: the text of the request.
        """
        forced = replace(request, prompt=replace(request.prompt, codes=codes))
        embeds = embed_prompt(forced, self._embed)[None]
        found = self._llama(inputs_embeds=embeds, output_attentions=True).attentions
        first, end = len(request.prompt.text) - 1, len(embeds[0]) - 1
        attention = torch.stack(
            [
                found[layer][0, head, first:end, : first + 1]
                for layer, head in self._chat.alignment_heads
            ],
            dim=1,
        )
        spoken = spoken_part(line)
        offsets = self._model.tokenizer.offsets(spoken)
        columns = text_columns(spoken, offsets, caller_words(line), str)
        finder = FaultFinder(columns)
        aligner = WordAligner(columns, finder)
        aligner.push(attention.float().numpy())
        aligner.flush()
        return finder


def measure(subject: Subject, count: int) -> list[tuple[Case, FaultFinder]]:
    """Return the cases whose sound is what they say, with what the model looks at in them."""
    reader, measured = Reader(subject), []
    tap = Tap(subject.chat.gpt.engine)
    subject.chat.gpt.engine = tap
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in cases(count):
        rng = CounterRng(SEED + 1, case.number)
        groups.setdefault((rng.pick(tuple(CAST)), rng.below(SPEEDS)), []).append(case)
    for seed, ((voice, pace), group) in enumerate(groups.items()):
        speak = partial(
            subject.waveforms,
            split_text=False,
            spk_emb=voice,
            prompt=f"[speed_{pace}]",
            manual_seed=seed,
        )
        speak([case.line for case in group])
        requests = tap.requests
        waves = speak([case.said for case in group])
        frames = [torch.cat(tap.frames[i]).numpy() for i in range(len(group))]
        for case, wave, codes, request in zip(group, waves, frames, requests, strict=True):
            if not len(wave) or not check_words(wave, case.said).good:
                continue
            if case.kind == FaultKind.WORDLESS.value:
                middle = len(codes) // 2
                codes = np.insert(codes, [middle] * _HELD, codes[middle], axis=0)
            measured.append((case, reader.finder(case.line, request, codes)))
    return measured


def rates(measured: Iterable[tuple[Case, FaultFinder]], limits: Limits) -> Mapping[str, str]:
    """Return for each kind the cases in which any fault was found, of all of them."""
    found: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for case, finder in measured:
        total[case.kind] += 1
        found[case.kind] += bool(finder.faults(limits))
    return {kind: f"{found[kind]} of {total[kind]}" for kind in sorted(total)}


def _command() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m recipes.voice.evaluation.faults", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--checkpoint", type=Path, help="folder that holds asset/")
    parser.add_argument("--count", type=int, default=300, help="requests (default %(default)s)")
    given = parser.parse_args()
    measured = measure(Subject(given.checkpoint), given.count)
    odd = [(case, finder) for case, finder in measured if case.number % 2]
    even = [(case, finder) for case, finder in measured if not case.number % 2]
    usual = Limits()
    print(f"{given.count} requests, {len(measured)} of them spoken as the recogniser wants them")
    for name, values in TRIED.items():
        for value in values:
            tried: dict[str, Any] = {name: value}
            print(name, value, rates(odd, replace(usual, **tried)))
    print("the limits in use, on the other half:", rates(even, usual))
    for case, finder in even:
        faults: list[FrameFault] = finder.faults(usual)
        if bool(faults) != (case.kind != _GOOD):
            print(f"{case.kind}: {case.line!r} said as {case.said!r}, found {faults}")


if __name__ == "__main__":
    _command()
