"""The metrics of an engine: what it has done, and what it holds now.

``serving/observe/engine_metrics.py`` shows them to Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# The fields of ``SchedulerStats`` that only grow.
_COUNTS = (
    "prompt_positions",
    "cached_positions",
    "preempted_recompute",
    "preempted_swap",
    "copied_blocks",
)


@dataclass(frozen=True)
class SchedulerStats:
    """Counts of a scheduler, down to ``copied_blocks``, and its present state.

    Attributes:
        prompt_positions: positions of prompts that were computed; those computed again after a
            preemption count again.
        cached_positions: positions that the prefix cache saved.
        preempted_recompute, preempted_swap: preemptions of sequences, of each kind.
        copied_blocks: blocks copied because two samples of a prompt diverge within one.
        running, waiting, swapped: sequences in each state now.
        blocks: all blocks of the device's pool.
        used_blocks: blocks that sequences hold.
        cached_blocks: blocks kept for later prompts that begin with the same tokens; they are
            evicted when room is needed.
        touched_blocks: blocks that have been used at least once; on a CPU no others take memory.
    """

    prompt_positions: int = 0
    cached_positions: int = 0
    preempted_recompute: int = 0
    preempted_swap: int = 0
    copied_blocks: int = 0
    running: int = 0
    waiting: int = 0
    swapped: int = 0
    blocks: int = 0
    used_blocks: int = 0
    cached_blocks: int = 0
    touched_blocks: int = 0

    def after(self, earlier: SchedulerStats) -> SchedulerStats:
        """Return these numbers with the counts of an earlier scheduler added."""
        sums = {name: getattr(self, name) + getattr(earlier, name) for name in _COUNTS}
        return replace(self, **sums)


@dataclass(frozen=True)
class Metrics(SchedulerStats):
    """A snapshot of an engine. All values but those of its state now count from its start.

    Attributes:
        requests_stopped: requests whose last sample ended by itself.
        requests_at_limit: requests whose last sample reached a length limit.
        requests_aborted: requests that their callers ended, or that ended with the engine.
        requests_failed: requests that ended with an error.
        generated_tokens: text tokens and frames.
        steps: steps of the model.
        model_seconds: time spent in them, or waiting for them where a device works by itself.
        engine_seconds: time spent on plans and outputs, and on giving such a device its work.
        block_bytes: the size of a block.
        block_positions: how many positions a block has.
    """

    requests_stopped: int = 0
    requests_at_limit: int = 0
    requests_aborted: int = 0
    requests_failed: int = 0
    generated_tokens: int = 0
    steps: int = 0
    model_seconds: float = 0.0
    engine_seconds: float = 0.0
    block_bytes: int = 0
    block_positions: int = 0
