"""From what a step did to sequences to what the callers of their requests are given."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable

from torch import Tensor

from ..draws import Pass
from ..generation import FinishReason
from .output import CompletionDelta, RequestOutput, aborted, join, mean_logprob, nothing
from .plan import StepResult
from .reports import Advance
from .sequence import SequenceGroup

logger = logging.getLogger(__name__)

# The counts of `Metrics` that the end of a request goes to.
_ENDS = {
    FinishReason.STOP: "requests_stopped",
    FinishReason.LENGTH: "requests_at_limit",
    FinishReason.ABORT: "requests_aborted",
}


class OutputCollector:
    """The requests whose callers wait, and their outputs: the last one of each exactly once.

    Args:
        num_codebooks: codebooks of a frame.
        max_positions: what the model can read.
        no_hiddens: [0, hidden], the hidden states of a delta without ids.

    Attributes:
        open: the requests that have not had their last output.
        counts: for ``Metrics``, by its names.
    """

    def __init__(self, num_codebooks: int, max_positions: int, no_hiddens: Tensor) -> None:
        self._num_codebooks = num_codebooks
        self._max_positions = max_positions
        self._no_hiddens = no_hiddens
        # With `best`: what each sample gained, until all are done.
        self._held: dict[str, dict[int, list[CompletionDelta]]] = {}
        self.open: dict[str, SequenceGroup] = {}
        self.counts: Counter[str] = Counter()

    def collect(self, advances: Iterable[Advance], result: StepResult) -> list[RequestOutput]:
        """What the open requests gained in a step."""
        gained: dict[str, dict[int, list[Advance]]] = {}
        for advance in advances:
            group, sample = advance.sequence.group, advance.sequence.sample
            # A request that was aborted while the step ran had its last output then.
            if self.open.get(group.request_id) is group:
                gained.setdefault(group.request_id, {}).setdefault(sample, []).append(advance)
        outputs = (
            self._output(self.open[name], [self._delta(own, result) for own in samples.values()])
            for name, samples in gained.items()
        )
        return [output for output in outputs if output is not None]

    def abort(self, group: SequenceGroup) -> RequestOutput:
        """The last output of an open request that is about to be aborted."""
        running = {seq.sample: seq.logprob for seq in group.sequences if seq.finish is None}
        given = {0: 0.0} if group.sampling.best else running
        self._close(group, _ENDS[FinishReason.ABORT])
        return aborted(group.request_id, given, self._lanes(group), self._no_hiddens)

    def _lanes(self, group: SequenceGroup) -> int:
        return self._num_codebooks if group.key.kind is Pass.CODE else 1

    def _delta(self, advances: list[Advance], result: StepResult) -> CompletionDelta:
        """What a sample gained in the steps of a plan."""
        seq, finish = advances[-1].sequence, advances[-1].finish
        group = seq.group
        num_codebooks = self._lanes(group)
        rows = [advance.row for advance in advances if advance.row is not None]
        if not rows:
            assert finish is not None
            return nothing(seq.sample, num_codebooks, self._no_hiddens, finish, seq.logprob)
        self.counts["generated_tokens"] += len(rows)
        room = self._max_positions - group.prompt_length
        if finish is FinishReason.LENGTH and group.limit == room < group.sampling.max_new:
            logger.warning(
                "request %r met the end of the model's positions and was cut there",
                group.request_id,
            )
        # Copies: whoever keeps a delta must not keep what all others gained in the step.
        ids, hiddens = result.ids[rows, :num_codebooks], result.hiddens[rows]
        return CompletionDelta(seq.sample, ids, hiddens, finish, seq.logprob)

    def _output(self, group: SequenceGroup, deltas: list[CompletionDelta]) -> RequestOutput | None:
        """What the caller of an open request is given for the deltas of its samples."""
        name = group.request_id
        error = next((seq.error for seq in group.sequences if seq.error is not None), None)
        if error is not None:
            self._close(group, "requests_failed")
            return RequestOutput(name, (), finished=True, error=error)
        finished = group.unfinished == 0
        if group.sampling.best:
            held = self._held.setdefault(name, {})
            for delta in deltas:
                held.setdefault(delta.sample, []).append(delta)
            if not finished:
                return None
            deltas = [max(map(join, held.values()), key=mean_logprob)]
        if finished:
            reason = deltas[-1].finish
            assert reason is not None
            self._close(group, _ENDS[reason])
        return RequestOutput(name, tuple(deltas), finished)

    def _close(self, group: SequenceGroup, count: str) -> None:
        del self.open[group.request_id]
        self._held.pop(group.request_id, None)
        self.counts[count] += 1
