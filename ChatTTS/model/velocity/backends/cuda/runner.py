"""Carry out plans on the device.

Steps follow one another there without the host, also while sequences join and leave.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .....utils.progress import progress
from ....cuda.failures import patience, wait_for
from ....cuda.support import on_device
from ....devices.tf32 import ieee_float32
from ....draws import Pass
from ....embed import RowKind
from ...configs import SchedulerConfig
from ...layers import Llama
from ...loaded_model import LoadedModel
from ...model_runner import ModelRunner, SequenceState
from ...plan import Future, Pending, StepPlan, StepResult, Work
from .decode_steps import DEPTH, MAX_STEPS, DecodeInput, DecodeSteps
from .operations import TritonOperations
from .prompt_steps import PromptSteps
from .text_attention import TextAttention

logger = logging.getLogger(__name__)


class GraphRunner(ModelRunner):
    """Replays recorded steps; see ``Runner`` in ``velocity/worker.py``.

    A step is up to three launches: prompts without the positions that draw, then the positions that
    draw frames, and those that draw text ids. The host waits for none of them.

    Args:
        model: the loaded model.
        pool: the KV cache's blocks.
        prompts: steps of positions that do not draw.
        decode: steps of positions that draw, by pass.
    """

    depth, max_steps = DEPTH, MAX_STEPS

    def __init__(
        self,
        model: LoadedModel,
        pool: Tensor,
        prompts: PromptSteps,
        decode: Mapping[Pass, DecodeSteps],
    ) -> None:
        super().__init__(model, pool)
        self._prompts, self._decode = prompts, dict(decode)

    def execute_model(self, plan: StepPlan) -> Future:
        reading = [
            replace(work, count=work.count - work.draws, draws=False)
            for work in plan.work
            if work.count > work.draws
        ]
        if reading:
            self._prompts.launch(self._batch(reading))
        drawing = [work for work in plan.work if work.draws]
        states = [self.states[work.seq_id] for work in drawing]
        parts: list[tuple[list[int], Pending]] = []
        for kind, decode in self._decode.items():
            places = [i for i, state in enumerate(states) if state.request.key.kind is kind]
            if places:
                works = [drawing[place] for place in places]
                decode.place({work.seq_id: _last(work) for work in works}, self._entry)
                tables = [work.block_table for work in works]
                heads = [states[place].heads for place in places]
                adapted = any(states[place].adapter >= 0 for place in places)
                pending = decode.run(tables, plan.steps, heads, adapted=adapted)
                parts.append((places, pending))
        if len(parts) == 1 and states[0].request.key.kind is Pass.CODE:
            [(_, pending)] = parts
            return Future(lambda: _noted(pending(), states))
        empty = self._empty(plan.steps, len(drawing))
        return Future(lambda: _noted(_merged(empty, plan.steps, parts), states))

    @torch.inference_mode()
    def _entry(self, seq_id: int) -> DecodeInput:
        """Return the input of a sequence that joins, of which no step is in flight."""
        state = self.states[seq_id]
        last = state.length - 1
        return DecodeInput(
            seq_id,
            last,
            state.ids[last].copy(),
            state.draw(self.ends[state.request.key.kind]),
            RowKind(int(state.kinds[last])),
            state.request.prompt.speaker,
            state.adapter,
        )

    def _empty(self, steps: int, draws: int) -> StepResult:
        """Return a result of steps with ``draws`` draws each, to be filled in."""
        count, hidden = steps * draws, self._model.shape.hidden_size
        return StepResult(
            ids=np.zeros((count, self._num_codebooks), dtype=np.int64),
            hiddens=torch.empty(count, hidden, dtype=torch.float32, device="cpu"),
            logprobs=np.zeros(count, dtype=np.float32),
            finite=np.ones(count, dtype=np.bool_),
        )


def _last(work: Work) -> int:
    """Return the position that draws."""
    return work.start + work.count - 1


def _merged(
    result: StepResult, steps: int, parts: Sequence[tuple[list[int], Pending]]
) -> StepResult:
    """Return ``result``, filled in with those of the passes.

    Args:
        result: rows of all draws, step after step.
        steps: how many.
        parts: the places of a pass's rows among the draws of a step, and its pending result.
    """
    draws = len(result.ids) // steps
    attention: dict[int, NDArray[np.float32]] = {}
    for places, pending in parts:
        part = pending()
        rows = np.add.outer(draws * np.arange(steps), places).ravel()
        result.ids[rows, : part.ids.shape[1]] = part.ids
        result.hiddens[torch.from_numpy(rows)] = part.hiddens
        result.logprobs[rows] = part.logprobs
        result.finite[rows] = part.finite
        attention.update((int(rows[row]), each) for row, each in part.attention.items())
    return replace(result, attention=attention)


def _noted(result: StepResult, states: Sequence[SequenceState]) -> StepResult:
    """Return the result of steps; bring the host's state of their sequences up to date."""
    for number, state in enumerate(states):
        state.append(result.ids[number :: len(states)])
    return result


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
    assert isinstance(llama, Llama)
    assert isinstance(llama.operations, TritonOperations)
    assert recorder is not None
    max_positions = model.shape.max_position_embeddings
    prompts = PromptSteps(
        llama,
        pool,
        recorder,
        num_codebooks=model.embed.num_codebooks,
        hidden=model.shape.hidden_size,
        max_rows=limits.max_num_batched_tokens,
        max_sequences=limits.max_num_batched_tokens,
        max_positions=max_positions,
    )
    rows = min(limits.max_num_seqs, limits.max_num_batched_tokens)
    attention = TextAttention(llama.operations, pool, rows)
    decode = {
        kind: DecodeSteps(
            llama,
            model.embed,
            pool,
            recorder,
            max_rows=rows,
            max_positions=max_positions,
            kind=kind,
            end=model.ends[kind],
            attention=attention,
        )
        for kind in Pass
    }
    # The largest first: the others fit into its memory.
    parts: tuple[PromptSteps | DecodeSteps, ...] = (prompts, *decode.values())
    # Steps without adapters take no longer for the adapters that are loaded.
    kinds = (True, False) if llama.operations.has_adapters else (False,)
    work = [
        (part, size, kind) for part in parts for size in reversed(part.buckets) for kind in kinds
    ]
    recording = progress("recording", "step", total=len(work))
    with ieee_float32(), on_device(pool.device), recording as bar:
        for part, size, adapted in work:
            part.record(size, adapted=adapted)
            bar.update()
    if pool.is_cuda:
        # Wait for this stream alone: waiting for the whole device would break a recording that
        # another thread makes.
        wait_for(torch.cuda.current_stream(pool.device).record_event(), patience())
    logger.info("recorded %d steps in %.1f s", recorder.captures, recorder.seconds)
    return GraphRunner(model, pool, prompts, decode)
