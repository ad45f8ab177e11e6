"""Carry out plans on the device.

Steps that only decode frames follow one another there without the host. All other steps are
replayed one by one.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ....utils.progress import progress
from ...cuda.precision import ieee_float32
from ...cuda.support import on_device
from ...draws import Pass
from ...embed import RowKind
from ..configs import SchedulerConfig
from ..model_loader import LoadedModel
from ..model_runner import ModelRunner, SequenceState
from ..plan import Pending, StepPlan, StepResult, Work
from .decode import DecodeInput, DecodeSteps
from .llama import TritonLlama
from .mixed_steps import RecordedLlama

logger = logging.getLogger(__name__)


class GraphRunner(ModelRunner):
    """Replays recorded steps; see ``Runner`` in ``velocity/worker.py``.

    Args:
        model: computes any step, and is waited for.
        pool: the KV cache's blocks.
        decode: steps that decode frames.
    """

    def __init__(self, model: LoadedModel, pool: Tensor, decode: DecodeSteps) -> None:
        super().__init__(model, pool)
        self._decode = decode

    def submit(self, plan: StepPlan) -> Pending:
        states = [self.states[work.seq_id] for work in plan.work]
        if not self._only_decodes(plan, states):
            self._decode.forget()
            result = _joined([self.run(_later(plan.work, i)) for i in range(plan.steps)])
            return lambda: result
        if not self._decode.is_laid_out([work.seq_id for work in plan.work]):
            self._decode.lay_out(list(map(self._row, plan.work, states)))
        steps = self._decode.run([work.block_table for work in plan.work], plan.steps)
        return lambda: _noted(steps(), states)

    def _only_decodes(self, plan: StepPlan, states: Sequence[SequenceState]) -> bool:
        return len(plan.work) <= self._decode.buckets[-1] and all(
            work.draws
            and work.count == 1
            and state.data.key.kind is Pass.CODE
            and state.kinds[work.start] == RowKind.CODE  # not the last text id of a prompt
            for work, state in zip(plan.work, states, strict=True)
        )

    def _row(self, work: Work, state: SequenceState) -> DecodeInput:
        draw = state.draw(self.ends[Pass.CODE])
        return DecodeInput(work.seq_id, work.start, state.ids[work.start], draw)


def _noted(result: StepResult, states: Sequence[SequenceState]) -> StepResult:
    """Return the result of steps; bring the host's state of their sequences up to date."""
    for state, ids in zip(itertools.cycle(states), result.ids, strict=False):
        state.append(ids)
    return result


def _later(works: Sequence[Work], steps: int) -> list[Work]:
    """Return the work ``steps`` steps later."""
    return [replace(work, start=work.start + steps) for work in works]


def _joined(results: Sequence[StepResult]) -> StepResult:
    """Return the results of several steps as one, in their order."""
    return StepResult(
        ids=np.concatenate([result.ids for result in results]),
        hiddens=torch.cat([result.hiddens for result in results]).float(),
        logprobs=np.concatenate([result.logprobs for result in results]),
        finite=np.concatenate([result.finite for result in results]),
    )


def new_runner(model: LoadedModel, pool: Tensor, limits: SchedulerConfig) -> GraphRunner:
    """Return a runner with all its steps recorded.

    Args:
        model: a model on Triton kernels, with its recorder.
        pool: the KV cache's blocks.
        limits: the limits of a step.

    Raises:
        ConfigError: the device has not enough memory.
    """
    llama, recorder = model.llama, model.recorder
    assert isinstance(llama, TritonLlama)
    assert recorder is not None
    max_positions = model.shape.max_position_embeddings
    hidden_size = model.shape.hidden_size
    prompts = RecordedLlama(
        llama,
        pool,
        recorder,
        num_codebooks=model.embed.num_codebooks,
        hidden=hidden_size,
        max_rows=limits.max_num_batched_tokens,
        max_sequences=limits.max_num_batched_tokens,
        max_positions=max_positions,
    )
    decode = DecodeSteps(
        llama,
        model.embed,
        pool,
        recorder,
        max_rows=min(limits.max_num_seqs, limits.max_num_batched_tokens),
        max_positions=max_positions,
    )
    # The largest first: the others fit into its memory.
    work = [(part, rows) for part in (prompts, decode) for rows in reversed(part.buckets)]
    recording = progress("recording", "step", total=len(work))
    with ieee_float32(), on_device(pool.device), recording as bar:
        for part, rows in work:
            part.record(rows)
            bar.update()
        # Compile the kernels of the text head now, not at the first texts that are refined.
        for rows in decode.buckets:
            model.embed.text_logits(model.embed.text.weight.new_zeros(rows, hidden_size))
    if pool.is_cuda:
        # Wait for this stream alone: waiting for the whole device would break a recording that
        # another thread makes.
        torch.cuda.current_stream(pool.device).synchronize()
    logger.info("recorded %d steps in %.1f s", recorder.captures, recorder.seconds)
    return GraphRunner(replace(model, llama=prompts), pool, decode)
