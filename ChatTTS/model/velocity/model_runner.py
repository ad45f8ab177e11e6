"""Carry out a plan's work: build the input batch, run the model, draw.

The runner keeps the inputs of all positions of a sequence by the sequence's id, those of the prompt
and the generated ones alike. So computing a position again after a preemption is no special case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..draws import Pass
from ..embed import RowKind
from ..generation import GenerationRequest
from ..processors import PENALTY_WINDOW
from ..sampling import Draw
from .input_batch import AttentionProbe, HeadSet, InputBatch
from .loaded_model import Drawn, LoadedModel
from .plan import Future, SequenceData, StepPlan, StepResult, Work


class SequenceState:
    """The inputs of one sequence, position by position.

    Attributes:
        kinds: uint8 [capacity], of :class:`~ChatTTS.model.embed.RowKind`.
        ids: int32 [capacity, num_codebooks].
        length: number of positions whose inputs are known.
        heads: those whose attention each draw gives, or ``None``.
        adapter: the number of its adapter, or -1.
    """

    def __init__(
        self, request: GenerationRequest, num_codebooks: int, max_positions: int, adapter: int = -1
    ) -> None:
        prompt = request.prompt
        capacity = min(max_positions, len(prompt) + request.sampling.max_new)
        self.request, self.adapter = request, adapter
        self.prompt_length = self.length = len(prompt)
        self.kinds = np.full(capacity, RowKind.CODE, dtype=np.uint8)
        self.ids = np.zeros((capacity, num_codebooks), dtype=np.int32)
        texts = len(prompt.text)
        self.kinds[:texts] = RowKind.TEXT
        self.ids[:texts, 0] = prompt.text
        if len(prompt.codes):
            self.ids[texts : len(prompt)] = prompt.codes
        self.vectors = 0
        if prompt.speaker is not None:
            slots = np.flatnonzero(prompt.speaker_slots)
            self.kinds[slots] = RowKind.VECTOR
            self.vectors = int(slots[-1]) + 1 if len(slots) else 0
        if request.key.kind is Pass.REFINE:
            self.kinds[len(prompt) :] = RowKind.TEXT
        self.heads: HeadSet | None = None
        if request.alignment_heads:
            layers, heads = np.array(request.alignment_heads, dtype=np.int32).T.copy()
            self.heads = HeadSet(layers, heads, texts)

    def append(self, ids: NDArray[np.int64]) -> None:
        """Take drawn ids [n, 1 or num_codebooks] as the next inputs.

        Those of the last position are never needed.
        """
        places = self.ids[self.length : self.length + len(ids), : ids.shape[1]]
        places[:] = ids[: len(places)]
        self.length += len(places)

    def draw(self, end: int) -> Draw:
        """Return the sampler's input for the next ids.

        Args:
            end: the id that ends a sequence.
        """
        start = max(self.prompt_length, self.length - PENALTY_WINDOW)
        return Draw(
            self.request.sampling,
            self.request.key,
            self.length - self.prompt_length,
            self.ids[start : self.length],
            end,
        )


class ModelRunner:
    """Computes the work of a plan.

    Args:
        model: the loaded model.
        pool: the device's blocks.

    Attributes:
        depth, max_steps: see ``ExecutorBase``.
        states: the sequences that had work, by their ids.
        ends: the id that ends a sequence, by pass.
    """

    depth = max_steps = 1

    def __init__(self, model: LoadedModel, pool: Tensor) -> None:
        self._model = model
        self._pool = pool
        self.states: dict[int, SequenceState] = {}
        self._num_codebooks = model.embed.num_codebooks
        self.ends = model.ends
        self._head_device = model.embed.code.weight.device
        self._is_first, self._is_last = model.shard.is_first, model.shard.is_last
        self._adapters: dict[str | None, int] = {None: -1}
        self._adapters |= {adapter.name: i for i, adapter in enumerate(model.adapters)}
        # The rows of the last step with a probe, what they wanted, and that probe.
        self._laid_out: tuple[int, list[tuple[int, HeadSet]], AttentionProbe] | None = None

    def forget(self, seq_ids: Sequence[int]) -> None:
        """Remove sequences; ids that never had work are ignored."""
        for seq_id in seq_ids:
            self.states.pop(seq_id, None)

    def add(self, new: Sequence[SequenceData]) -> None:
        """Add sequences that have their first work."""
        for data in new:
            self.states[data.seq_id] = SequenceState(
                data.request,
                self._num_codebooks,
                self._model.shape.max_position_embeddings,
                self._adapters[data.request.adapter],
            )

    def execute_model(self, plan: StepPlan) -> Future:
        """Compute a plan's work, and draw the next ids of the sequences that ask for it.

        Only the last stage of a pipeline draws. The result of another one has no rows.
        """
        with torch.inference_mode():
            return Future(self._run(plan.work))

    def append(self, drawn: Mapping[int, NDArray[np.int64]]) -> None:
        """Take ids that the last stage drew, [n, num_codebooks] by the sequence's id.

        Ids of sequences that ended are ignored.
        """
        for seq_id, ids in drawn.items():
            if (state := self.states.get(seq_id)) is not None:
                state.append(ids if state.request.key.kind is Pass.CODE else ids[:, :1])

    def _run(self, works: Sequence[Work]) -> StepResult:
        batch, llama = self._batch(works), self._model.llama
        assert batch.probe is None or llama.gives_attention, "this Llama gives no attention"
        hiddens = llama.forward(batch if self._is_first else self._received(batch), self._pool)
        drawing = []
        for work in works:
            if work.draws:
                drawing.append(self.states[work.seq_id])
        attention = {} if batch.probe is None else _attention(batch.probe, batch.draws, drawing)
        if not self._is_last:
            assert self._model.peers is not None
            self._model.peers.pass_on(hiddens)
            drawing, hiddens = [], hiddens[:0]
        places: dict[Pass, list[int]] = {}
        for place, state in enumerate(drawing):
            places.setdefault(state.request.key.kind, []).append(place)
        if list(places) == [Pass.CODE]:
            drawn = self._draw(Pass.CODE, hiddens, drawing)
            return StepResult(drawn.ids, hiddens, drawn.logprobs, drawn.finite, attention)
        result = StepResult(
            ids=np.zeros((len(drawing), self._num_codebooks), dtype=np.int64),
            hiddens=hiddens,
            logprobs=np.zeros(len(drawing), dtype=np.float32),
            finite=np.ones(len(drawing), dtype=np.bool_),
            attention=attention,
        )
        for kind, rows in places.items():
            drawn = self._draw(kind, hiddens[rows], [drawing[place] for place in rows])
            result.ids[rows, : drawn.ids.shape[1]] = drawn.ids
            result.logprobs[rows] = drawn.logprobs
            result.finite[rows] = drawn.finite
        return result

    def _received(self, batch: InputBatch) -> InputBatch:
        """Return the batch with what the stage before computed."""
        peers = self._model.peers
        assert peers is not None
        return replace(batch, given=peers.receive(self._model.llama.new_rows(len(batch))))

    def _draw(self, kind: Pass, hiddens: Tensor, states: Sequence[SequenceState]) -> Drawn:
        """Draw the next ids of sequences, all of one pass, from their hidden states."""
        embed = self._model.embed
        heads = embed.code_logits if kind is Pass.CODE else embed.text_logits
        logits = heads(hiddens.to(self._head_device))
        rows, end = [], self.ends[kind]
        for state in states:
            rows.append(state.draw(end))
        drawn = self._model.sampler(logits, rows)
        for row, state in enumerate(states):
            state.append(drawn.ids[row : row + 1])
        return drawn

    def _batch(self, works: Sequence[Work]) -> InputBatch:
        """Return the rows of all the work, one sequence after another."""
        starts, counts, widest = [], [], 0
        for work in works:
            starts.append(work.start)
            counts.append(work.count)
            widest = max(widest, len(work.block_table))
        ends = np.add.accumulate(counts)
        rows = int(ends[-1])
        kinds = np.empty(rows, dtype=np.uint8)
        ids = np.empty((rows, self._num_codebooks), dtype=np.int32)
        tables = np.zeros((len(works), widest), dtype=np.int32)
        vectors: list[NDArray[np.float32]] = []
        adapters: list[int] = []
        draws: list[int] = []
        wanted: list[tuple[int, HeadSet]] = []
        end = 0
        for index, work in enumerate(works):
            state = self.states[work.seq_id]
            start, stop = work.start, work.start + work.count
            first, end = end, end + work.count
            kinds[first:end] = state.kinds[start:stop]
            ids[first:end] = state.ids[start:stop]
            tables[index, : len(work.block_table)] = work.block_table
            adapters.append(state.adapter)
            if work.draws:
                draws.append(end - 1)
                if state.heads is not None:
                    wanted.append((end - 1, state.heads))
            if start < state.vectors:
                assert state.request.prompt.speaker is not None
                ids[first:end, 0][kinds[first:end] == RowKind.VECTOR] = len(vectors)
                vectors.append(state.request.prompt.speaker)
        offsets = (np.array(starts) - ends + counts).astype(np.int32)
        table_of = np.arange(len(works), dtype=np.int32).repeat(counts)
        hidden = self._model.shape.hidden_size
        return InputBatch(
            kinds=kinds,
            ids=ids,
            vectors=np.array(vectors, dtype=np.float32).reshape(-1, hidden),
            positions=np.arange(rows, dtype=np.int32) + offsets[table_of],
            tables=tables,
            table_of=table_of,
            draws=np.array(draws, dtype=np.int32),
            probe=self._probe(rows, wanted) if wanted else None,
            adapter_of=(
                np.array(adapters, dtype=np.int32).repeat(counts) if max(adapters) >= 0 else None
            ),
        )

    def _probe(self, rows: int, wanted: list[tuple[int, HeadSet]]) -> AttentionProbe:
        """Return a probe; steps that only decode are often laid out like the one before."""
        if self._laid_out is None or self._laid_out[:2] != (rows, wanted):
            self._laid_out = rows, wanted, AttentionProbe.of(rows, wanted)
        return self._laid_out[2].again()


def _attention(
    probe: AttentionProbe, rows: NDArray[np.int32], drawing: Sequence[SequenceState]
) -> dict[int, NDArray[np.float32]]:
    """Return the attention of a computed batch, by the number of the draw.

    Args:
        rows: of the batch, which draw.
    """
    return {
        i: probe.row(row)
        for i, (row, state) in enumerate(zip(rows.tolist(), drawing, strict=True))
        if state.heads is not None
    }
