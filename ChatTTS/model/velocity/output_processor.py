"""Turn the result of a step into outputs for the callers of its requests."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from ..generation import Delta, FinishReason, GenerationRequest
from ..merge_deltas import merge_deltas
from ..random_numbers import Pass
from .output import RequestOutput, mean_logprob
from .plan import StepResult
from .row_copies import RowCopies
from .sequence import Advance, SequenceGroup

logger = logging.getLogger(__name__)

# The field of `Metrics` that counts requests with each end.
_METRIC_OF_END = {
    FinishReason.STOP: "requests_stopped",
    FinishReason.LENGTH: "requests_at_limit",
    FinishReason.ABORT: "requests_aborted",
}


class OutputProcessor:
    """Makes the outputs of all open requests; each request has exactly one last output.

    Args:
        num_codebooks: codebooks of a frame.
        max_positions: the most positions that the model can read.
        no_hiddens: [0, hidden], the hidden states of a delta without ids.

    Attributes:
        open: the requests that have not had their last output, by id.
        counts: values of ``Metrics`` fields, by name.
    """

    def __init__(self, num_codebooks: int, max_positions: int, no_hiddens: Tensor) -> None:
        self._num_codebooks = num_codebooks
        self._max_positions = max_positions
        self._no_hiddens = no_hiddens
        # For requests with `best`: the deltas of each sample, until all samples have ended.
        self._held: dict[str, dict[int, list[Delta]]] = {}
        self.open: dict[str, SequenceGroup] = {}
        self.counts: Counter[str] = Counter()

    def process(self, advances: Iterable[Advance], result: StepResult) -> list[RequestOutput]:
        """Return what the open requests gained in a step."""
        deltas: dict[str, list[Delta]] = {}
        ids, hiddens = RowCopies(torch.from_numpy(result.ids)), RowCopies(result.hiddens)
        drawn = 0
        for advance in advances:
            group = advance.sequence.group
            # A request that was aborted while the step ran has had its last output already.
            if self.open.get(group.request_id) is group:
                delta = self._delta(advance, result, ids, hiddens)
                drawn += len(advance.rows)
                deltas.setdefault(group.request_id, []).append(delta)
        self.counts["generated_tokens"] += drawn
        outputs = []
        for name, new in deltas.items():
            if (output := self._output(self.open[name], new)) is not None:
                outputs.append(output)
        return outputs

    def end_all(self, count: str) -> None:
        """Forget the open requests, which have no last output.

        Args:
            count: the field of ``Metrics`` that counts them.
        """
        self.counts[count] += len(self.open)
        self.open, self._held = {}, {}

    def abort(self, group: SequenceGroup) -> RequestOutput:
        """Close an open request that is about to be aborted; return its last output."""
        running = {seq.sample: seq.logprob for seq in group.sequences if seq.finish is None}
        self._close(group, _METRIC_OF_END[FinishReason.ABORT])
        return self.aborted(group.request, {0: 0.0} if group.request.sampling.best else running)

    def aborted(self, request: GenerationRequest, samples: Mapping[int, float]) -> RequestOutput:
        """Return the last output of an aborted request. This changes nothing.

        Args:
            samples: the samples that had not ended, each with its log-probability so far.
        """
        deltas = (
            self._end(request.key.kind, sample, FinishReason.ABORT, logprob)
            for sample, logprob in samples.items()
        )
        return RequestOutput(request.request_id, tuple(deltas), finished=True)

    def _end(self, kind: Pass, sample: int, finish: FinishReason, logprob: float) -> Delta:
        """Return a delta without ids, which only says why a sample ended."""
        ids = torch.empty(0, self._ids_per_position(kind), dtype=torch.int64)
        return Delta(sample, ids, self._no_hiddens, finish, logprob)

    def _ids_per_position(self, kind: Pass) -> int:
        return self._num_codebooks if kind is Pass.CODE else 1

    def _delta(
        self, advance: Advance, result: StepResult, ids: RowCopies, hiddens: RowCopies
    ) -> Delta:
        """Return what a sample gained in the steps of a plan.

        Args:
            ids, hiddens: those of ``result``.
        """
        seq, rows = advance.sequence, advance.rows
        group, kind = seq.group, seq.request.key.kind
        if not rows:
            assert seq.finish is not None
            return self._end(kind, seq.sample, seq.finish, seq.logprob)
        if seq.finish is FinishReason.LENGTH:
            room = self._max_positions - group.prompt_length
            if group.limit == room < group.request.sampling.max_new:
                logger.warning(
                    "request %r met the end of the model's positions and was cut there",
                    group.request_id,
                )
        own_ids = ids.of(rows)
        attention = None
        if group.request.alignment_heads:
            own_attention = [result.attention[row] for row in rows]
            one = len(rows) == 1  # the usual case, for which np.stack is slow
            attention = torch.from_numpy(
                own_attention[0].copy()[None] if one else np.stack(own_attention)
            )
        if kind is Pass.REFINE:
            own_ids = own_ids[:, :1].clone()
        return Delta(seq.sample, own_ids, hiddens.of(rows), seq.finish, seq.logprob, attention)

    def _output(self, group: SequenceGroup, deltas: list[Delta]) -> RequestOutput | None:
        """Return the output of an open request, or ``None`` while all of it is held back."""
        name = group.request_id
        if len(deltas) == 1 and deltas[0].finish is None and not group.request.sampling.best:
            return RequestOutput(name, tuple(deltas), finished=False)
        error = next((seq.error for seq in group.sequences if seq.error is not None), None)
        if error is not None:
            self._close(group, "requests_failed")
            return RequestOutput(name, (), finished=True, error=error)
        finished = group.unfinished == 0
        if group.request.sampling.best:
            held = self._held.setdefault(name, {})
            for delta in deltas:
                held.setdefault(delta.index, []).append(delta)
            if not finished:
                return None
            deltas = [max(map(merge_deltas, held.values()), key=mean_logprob)]
        if finished:
            reason = deltas[-1].finish
            assert reason is not None
            self._close(group, _METRIC_OF_END[reason])
        return RequestOutput(name, tuple(deltas), finished)

    def _close(self, group: SequenceGroup, count: str) -> None:
        del self.open[group.request_id]
        self._held.pop(group.request_id, None)
        self.counts[count] += 1
