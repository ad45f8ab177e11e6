"""Plans on the device: steps that only decode frames are replayed, all others computed as usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ...draws import Pass
from ..batch import RowKind
from ..model_loader import LoadedModel
from ..model_runner import ModelRunner, SequenceState
from ..plan import Pending, SequenceData, StepPlan, StepResult, Work
from .decode import DecodeRow, DecodeSteps, PendingSteps
from .llama import TritonLlama


class GraphRunner:
    """See ``Runner`` in ``velocity/worker.py``.

    Args:
        eager: computes what is not recorded, and keeps the books of all sequences.
        steps: those that are recorded.
    """

    def __init__(self, eager: ModelRunner, steps: DecodeSteps) -> None:
        self._eager = eager
        self._steps = steps

    def forget(self, seq_ids: Sequence[int]) -> None:
        self._eager.forget(seq_ids)

    def add(self, new: Sequence[SequenceData]) -> None:
        self._eager.add(new)

    def submit(self, plan: StepPlan) -> Pending:
        states = [self._eager.states[work.seq_id] for work in plan.work]
        if not self._is_recorded(plan, states):
            self._steps.forget()
            result = _joined([self._eager.run(_later(plan.work, i)) for i in range(plan.steps)])
            return lambda: result
        if not self._steps.is_laid_out([work.seq_id for work in plan.work]):
            self._steps.lay_out(list(map(self._row, plan.work, states)))
        steps = self._steps.run([work.block_table for work in plan.work], plan.steps)
        return lambda: _result(steps, states)

    def _is_recorded(self, plan: StepPlan, states: Sequence[SequenceState]) -> bool:
        return len(plan.work) <= self._steps.buckets[-1] and all(
            work.draws
            and work.count == 1
            and state.data.key.kind is Pass.CODE
            and state.kinds[work.start] == RowKind.CODE  # not the last text id of a prompt
            for work, state in zip(plan.work, states, strict=True)
        )

    def _row(self, work: Work, state: SequenceState) -> DecodeRow:
        draw = state.draw(self._eager.ends[Pass.CODE])
        return DecodeRow(work.seq_id, work.start, state.ids[work.start], draw)


def _result(steps: PendingSteps, states: Sequence[SequenceState]) -> StepResult:
    """What steps gave, once they are done; the host's books follow."""
    decoded = steps.wait()
    for step in decoded.ids:
        for state, ids in zip(states, step, strict=True):
            state.append(ids)
    return StepResult(
        ids=decoded.ids.reshape(-1, decoded.ids.shape[2]),
        hiddens=decoded.hiddens.flatten(0, 1),
        logprobs=decoded.logprobs.flatten(),
        finite=decoded.finite.flatten(),
    )


def _later(works: Sequence[Work], steps: int) -> list[Work]:
    """The work so many steps later."""
    return [replace(work, start=work.start + steps) for work in works]


def _joined(results: Sequence[StepResult]) -> StepResult:
    """Step after step."""
    return StepResult(
        ids=np.concatenate([result.ids for result in results]),
        hiddens=torch.cat([result.hiddens for result in results]).float(),
        logprobs=np.concatenate([result.logprobs for result in results]),
        finite=np.concatenate([result.finite for result in results]),
    )


def new_runner(eager: ModelRunner, model: LoadedModel, pool: Tensor, max_rows: int) -> GraphRunner:
    """A runner whose steps are recorded.

    Args:
        model: on Triton kernels, with its recorder.
        max_rows: sequences that may decode together.

    Raises:
        ConfigError: the device has not enough memory.
    """
    assert isinstance(model.llama, TritonLlama)
    assert model.recorder is not None
    steps = DecodeSteps(
        model.llama,
        model.embed,
        pool,
        model.recorder,
        max_rows=max_rows,
        max_positions=model.shape.max_position_embeddings,
    )
    steps.record()
    return GraphRunner(eager, steps)
