"""A driver that moves sequences through a worker, plan by plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.random_numbers import DrawKey, Pass
from ChatTTS.model.sampling_params import SamplingParams
from ChatTTS.model.tokenizer import Prompt
from ChatTTS.model.velocity.plan import BlockMove, SequenceData, StepPlan, StepResult, Work
from ChatTTS.model.velocity.worker import Worker

BLOCK = 8
STEPS = 24
HIDDEN = 64  # of model-a


def make_data(
    seq_id: int,
    *,
    kind: Pass = Pass.CODE,
    length: int = 20,
    codes: int = 0,
    speaker: bool = True,
    sample: int = 0,
    hidden: int = HIDDEN,
    texts: int = 400,
    **sampling: Any,
) -> SequenceData:
    rng = np.random.default_rng(length + 100 * codes)
    text = rng.integers(0, texts, length)
    slots = np.zeros(length, dtype=np.bool_)
    vector = None
    if speaker:
        slots[[1, length // 2]] = True
        vector = rng.standard_normal(hidden).astype(np.float32)
        vector /= np.linalg.norm(vector)
    frames = rng.integers(0, 625, (codes, 4)) if codes else np.zeros((0, 0), dtype=np.int64)
    usual = SamplingParams(
        (0.8,) * (4 if kind is Pass.CODE else 1), 0.7, 20, 1.3, STEPS * 3, STEPS * 3
    )
    prompt = Prompt(text, frames, vector, slots)
    key = DrawKey(40 + length, kind, sample=sample)
    return SequenceData(seq_id, GenerationRequest(prompt, replace(usual, **sampling), key))


@dataclass
class Told:
    """The results of a sequence."""

    ids: list[list[int]] = field(default_factory=list)
    hiddens: list[Tensor] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finite: list[bool] = field(default_factory=list)

    def assert_equal(self, other: Told) -> None:
        """Check that every bit is equal."""
        assert self.ids == other.ids
        assert self.logprobs == other.logprobs
        assert torch.stack(self.hiddens).equal(torch.stack(other.hiddens))


class Driver:
    """Sequences on a worker, and their block tables."""

    def __init__(self, worker: Worker, datas: Iterable[SequenceData], first_block: int = 0) -> None:
        self.worker = worker
        self.data = {data.seq_id: data for data in datas}
        self.computed = dict.fromkeys(self.data, 0)
        self.told = {seq_id: Told() for seq_id in self.data}
        self.tables: dict[int, list[int]] = {}
        self.known: set[int] = set()
        self.next_block = first_block
        for seq_id in self.data:
            self.new_table(seq_id)

    def new_table(self, seq_id: int) -> list[int]:
        """Give a sequence new blocks, in reverse order; return the old table."""
        old = self.tables.get(seq_id, [])
        data = self.data[seq_id]
        count = -(-(len(data.request.prompt) + 2 * STEPS) // BLOCK)
        self.tables[seq_id] = list(range(self.next_block, self.next_block + count))[::-1]
        self.next_block += count
        return old

    def missing(self, seq_id: int) -> int:
        length = len(self.data[seq_id].request.prompt) + len(self.told[seq_id].ids)
        return length - self.computed[seq_id]

    def step(
        self,
        seq_ids: Sequence[int] | None = None,
        *,
        chunk: int = 10_000,
        moves: tuple[BlockMove, ...] = (),
        ended: tuple[int, ...] = (),
    ) -> StepResult:
        works = []
        for seq_id in self.data if seq_ids is None else seq_ids:
            start, count = self.computed[seq_id], min(chunk, self.missing(seq_id))
            table = tuple(self.tables[seq_id][: -(-(start + count) // BLOCK)])
            works.append(Work(seq_id, start, count, table, count == self.missing(seq_id)))
            self.computed[seq_id] += count
        new = tuple(self.data[w.seq_id] for w in works if w.seq_id not in self.known)
        self.known |= {data.seq_id for data in new}
        result = self.worker.execute_model(StepPlan(ended, moves, new, tuple(works)))()
        drawn = [work.seq_id for work in works if work.draws]
        assert result.ids.shape == (len(drawn), 4)
        assert result.hiddens.shape[0] == len(result.logprobs) == len(result.finite) == len(drawn)
        for row, seq_id in enumerate(drawn):
            told = self.told[seq_id]
            told.ids.append(result.ids[row].tolist())
            told.hiddens.append(result.hiddens[row].clone())
            told.logprobs.append(float(result.logprobs[row]))
            told.finite.append(bool(result.finite[row]))
        return result

    def run(self, steps: int, **how: Any) -> dict[int, Told]:
        """Step until each sequence has drawn ``steps`` more ids."""
        goals = {seq_id: len(told.ids) + steps for seq_id, told in self.told.items()}
        while todo := [i for i, told in self.told.items() if len(told.ids) < goals[i]]:
            self.step(todo, **how)
        return self.told


def alone(worker: Worker, data: SequenceData, steps: int = STEPS) -> Told:
    return Driver(worker, [data], first_block=60).run(steps)[data.seq_id]


def everything() -> list[SequenceData]:
    """Make text and code sequences with various speakers, sample codes and settings."""
    return [
        make_data(0, length=20),
        make_data(1, kind=Pass.REFINE, length=9, speaker=False, temperature=(0.6,)),
        make_data(2, length=31, codes=17, top_k=3, temperature=(1.0, 0.0, 0.3, 2.0)),
        make_data(3, kind=Pass.REFINE, length=26, repetition_penalty=1.0),
        make_data(4, length=2, speaker=False, temperature=(0.0,) * 4, top_p=0.3),
    ]
