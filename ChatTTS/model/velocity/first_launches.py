"""Plans that launch every kernel once, before there are requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..generation import GenerationRequest
from ..random_numbers import DrawKey, Pass
from ..sampling_params import SamplingParams
from ..tokenizer import Prompt
from .configs import CacheConfig, SchedulerConfig
from .plan import SequenceData, StepPlan, Work


def first_plans(
    buckets: Sequence[int],
    limits: SchedulerConfig,
    cache: CacheConfig,
    *,
    num_codebooks: int,
    max_positions: int,
) -> Iterator[StepPlan]:
    """Give a plan of each number of rows and pass; each forgets the sequences of the one before.

    The last plan computes nothing. As many rows as may draw do; no block is in two sequences.

    Args:
        buckets: the numbers of rows; those for which there are no blocks are left out.
        limits: the limits of a step.
        cache: with the numbers of blocks.
        num_codebooks: codebooks of a frame.
        max_positions: the most positions of a sequence.
    """
    ended: tuple[int, ...] = ()
    number = 0
    for rows in buckets:
        lengths = _lengths(rows, limits, cache, max_positions)
        if lengths is None:
            continue
        for kind in Pass:
            plan = _plan(number, lengths, kind, num_codebooks, cache.block_size, ended)
            yield plan
            ended = tuple(work.seq_id for work in plan.work)
            number += len(ended)
    yield StepPlan(ended, (), (), ())


def _lengths(
    rows: int, limits: SchedulerConfig, cache: CacheConfig, max_positions: int
) -> list[int] | None:
    """Return the lengths of prompts that have ``rows`` positions together: as many as fit."""
    blocks = cache.num_blocks or 0
    for count in range(min(rows, limits.max_num_seqs, blocks), 0, -1):
        lengths = [1] * (count - 1) + [rows - count + 1]
        # The last one is as long as the model and the blocks that are left allow.
        if lengths[-1] < max_positions and lengths[-1] <= (blocks - count + 1) * cache.block_size:
            return lengths
    return None


def _plan(
    first: int,
    lengths: Sequence[int],
    kind: Pass,
    num_codebooks: int,
    block_size: int,
    ended: tuple[int, ...],
) -> StepPlan:
    sampling = SamplingParams(
        (1.0,) * (num_codebooks if kind is Pass.CODE else 1), 0.7, 20, 1.0, 0, 1
    )
    new, works, block = [], [], 0
    for seq_id, length in enumerate(lengths, first):
        count = -(-length // block_size)
        table = tuple(range(block, block + count))
        block += count
        none = np.zeros((0, 0), dtype=np.int64)
        prompt = Prompt(
            np.zeros(length, dtype=np.int64), none, None, np.zeros(length, dtype=np.bool_)
        )
        new.append(SequenceData(seq_id, GenerationRequest(prompt, sampling, DrawKey(0, kind))))
        works.append(Work(seq_id, 0, length, table, draws=True))
    return StepPlan(ended, (), tuple(new), tuple(works))
