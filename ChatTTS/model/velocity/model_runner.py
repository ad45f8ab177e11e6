"""Carry out a plan's work, by a step runner that computes positions and samples ids.

One step runner is here: it computes each step at once. The other one replays captured steps; see
``backends/cuda/graph_runner.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..random_numbers import Pass
from .input_batch import AttentionProbe, HeadSet, InputBatch, SequenceState
from .loaded_model import LoadedModel
from .plan import Pending, SequenceData, StepPlan, StepResult, Work


class StepRunner(Protocol):
    """Computes the positions of steps, and samples ids.

    Attributes:
        depth, max_steps: see ``ExecutorBase``.
    """

    depth: int
    max_steps: int

    def forward(
        self, works: Sequence[Work], states: Sequence[SequenceState]
    ) -> Mapping[int, NDArray[np.float32]]:
        """Compute a step's positions; those that draw may be left to :meth:`sample`.

        Args:
            states: of the sequences of the works.

        Returns:
            The attention of draws as far as it is found, by the number of the draw.
        """
        ...

    def sample(
        self,
        kind: Pass,
        places: Sequence[int],
        works: Sequence[Work],
        states: Sequence[SequenceState],
        steps: int,
    ) -> Pending:
        """Draw the next ids of all sequences of a pass that draw in this step.

        Args:
            places: their numbers among the draws of the step.
            states: of the sequences of the works.
            steps: how many steps; each moves all of the sequences by one position.

        Returns:
            What waits for their rows, step after step, and for the rest of their attention. The ids
            may have the columns of the pass alone.
        """
        ...


class ModelRunner:
    """Carries out plans by a step runner.

    Attributes:
        depth, max_steps: see ``ExecutorBase``.
        states: the sequences that had work, by their ids.
    """

    def __init__(self, model: LoadedModel, step_runner: StepRunner) -> None:
        self._step_runner = step_runner
        self.depth, self.max_steps = step_runner.depth, step_runner.max_steps
        self.states: dict[int, SequenceState] = {}
        self._num_codebooks, self._shape = model.embed.num_codebooks, model.shape
        self._is_last = model.shard.is_last
        self._adapters: dict[str | None, int] = {None: -1}
        self._adapters |= {adapter.name: i for i, adapter in enumerate(model.adapters)}

    def forget(self, seq_ids: Sequence[int]) -> None:
        """Remove sequences; ids that never had work are ignored."""
        for seq_id in seq_ids:
            self.states.pop(seq_id, None)

    def add(self, new: Sequence[SequenceData]) -> None:
        """Add sequences that have their first work."""
        most = self._shape.max_position_embeddings
        for data in new:
            adapter = self._adapters[data.request.adapter]
            self.states[data.seq_id] = SequenceState(
                data.request, self._num_codebooks, most, adapter
            )

    def append(self, drawn: Mapping[int, NDArray[np.int64]]) -> None:
        """Take ids that the last stage drew, [n, num_codebooks] by the sequence's id.

        Ids of sequences that ended are ignored.
        """
        for seq_id, ids in drawn.items():
            if (state := self.states.get(seq_id)) is not None:
                state.append(ids)

    def execute_model(self, plan: StepPlan) -> Pending:
        """Compute a plan's work, and draw the next ids of the sequences that ask for it.

        Only the last stage of a pipeline draws. The result of another one has no rows.
        """
        states: list[SequenceState] = []
        drawing: list[SequenceState] = []
        passes: dict[Pass, tuple[list[int], list[Work], list[SequenceState]]] = {}
        for work in plan.work:
            state = self.states[work.seq_id]
            states.append(state)
            if work.draws and self._is_last:
                places, works, own = passes.setdefault(state.request.key.kind, ([], [], []))
                places.append(len(drawing))
                works.append(work)
                own.append(state)
                drawing.append(state)
        parts = []
        with torch.inference_mode():
            attention = self._step_runner.forward(plan.work, states)
            for kind, (places, works, own) in passes.items():
                pending = self._step_runner.sample(kind, places, works, own, plan.steps)
                parts.append((places, pending))
        return partial(self._finish, drawing, plan.steps, attention, parts)

    def _finish(
        self,
        states: Sequence[SequenceState],
        steps: int,
        attention: Mapping[int, NDArray[np.float32]],
        parts: Sequence[tuple[list[int], Pending]],
    ) -> StepResult:
        """Wait for the draws of a plan, which become the next inputs of their sequences.

        Args:
            states: of the sequences that draw.
            steps: of the plan.
            attention: what was found before the draws.
            parts: the places of a pass's rows among the draws of a step, and what waits for them.
        """
        if len(parts) == 1 and not attention and states[0].request.key.kind is Pass.CODE:
            [(_, pending)] = parts
            result = pending()
        else:
            result = self._merge_passes(len(states), steps, attention, parts)
        for number, state in enumerate(states):
            state.append(result.ids[number :: len(states)])
        return result

    def _merge_passes(
        self,
        draws: int,
        steps: int,
        attention: Mapping[int, NDArray[np.float32]],
        parts: Sequence[tuple[list[int], Pending]],
    ) -> StepResult:
        """Wait for the passes; return their rows as those of ``draws`` draws in each step."""
        found = [(places, pending()) for places, pending in parts]
        count, known = steps * draws, dict(attention)
        ids = np.zeros((count, self._num_codebooks), dtype=np.int64)
        dtype = found[0][1].hiddens.dtype if found else torch.float32
        hiddens = torch.empty(count, self._shape.hidden_size, dtype=dtype, device="cpu")
        logprobs = np.zeros(count, dtype=np.float32)
        finite = np.ones(count, dtype=np.bool_)
        for places, part in found:
            rows = np.add.outer(draws * np.arange(steps), places).ravel()
            ids[rows, : part.ids.shape[1]] = part.ids
            hiddens[torch.from_numpy(rows)] = part.hiddens
            logprobs[rows], finite[rows] = part.logprobs, part.finite
            known.update((int(rows[row]), each) for row, each in part.attention.items())
        return StepResult(ids, hiddens, logprobs, finite, known)


class EagerRunner:
    """Computes each step at once: all its positions in one forward, then the draws.

    Args:
        model: the loaded model.
        pool: the device's blocks.
    """

    depth = max_steps = 1

    def __init__(self, model: LoadedModel, pool: Tensor) -> None:
        self._model, self._pool, self._ends = model, pool, model.ends
        self._head_device = model.embed.code.weight.device
        self._is_first, self._is_last = model.shard.is_first, model.shard.is_last
        # Of the positions that draw.
        self._hiddens = torch.empty(0)
        # The rows of the last step with a probe, what they wanted, and that probe.
        self._laid_out: tuple[int, list[tuple[int, HeadSet]], AttentionProbe] | None = None

    def forward(
        self, works: Sequence[Work], states: Sequence[SequenceState]
    ) -> Mapping[int, NDArray[np.float32]]:
        """Compute all positions; see :class:`StepRunner`."""
        model, llama = self._model, self._model.llama
        batch = InputBatch.of(works, states, model.shape.hidden_size)
        wanted: dict[int, tuple[int, HeadSet]] = {}
        draws = iter(enumerate(batch.draws.tolist()))
        for work, state in zip(works, states, strict=True):
            if work.draws:
                number, row = next(draws)
                if state.heads is not None:
                    wanted[number] = row, state.heads
        attention = {}
        if wanted:
            assert llama.gives_attention, "this Llama gives no attention"
            probe = self._probe(len(batch), list(wanted.values()))
            batch = replace(batch, probe=probe)
            attention = {number: probe.row(row) for number, (row, _) in wanted.items()}
        if not self._is_first:
            assert model.communicator is not None
            batch = replace(batch, given=model.communicator.receive(llama.new_rows(len(batch))))
        hiddens = llama.forward(batch, self._pool)
        if self._is_last:
            self._hiddens = hiddens
        else:
            assert model.communicator is not None
            model.communicator.send(hiddens)
        return attention

    def sample(
        self,
        kind: Pass,
        places: Sequence[int],
        works: Sequence[Work],
        states: Sequence[SequenceState],
        steps: int,
    ) -> Pending:
        """Draw from what :meth:`forward` computed; see :class:`StepRunner`."""
        embed, hiddens = self._model.embed, self._hiddens
        if len(places) < len(hiddens):
            hiddens = hiddens[places]
        heads = embed.code_logits if kind is Pass.CODE else embed.text_logits
        logits = heads(hiddens.to(self._head_device))
        rows, end = [], self._ends[kind]
        for state in states:
            rows.append(state.sampling_row(end))
        drawn = self._model.sampler(logits, rows)
        result = StepResult(drawn.ids, hiddens, drawn.logprobs, drawn.finite)
        return lambda: result

    def _probe(self, rows: int, wanted: list[tuple[int, HeadSet]]) -> AttentionProbe:
        """Return a probe; steps that only decode are often laid out like the one before."""
        if self._laid_out is None or self._laid_out[:2] != (rows, wanted):
            self._laid_out = rows, wanted, AttentionProbe.of(rows, wanted)
        return self._laid_out[2].again()
