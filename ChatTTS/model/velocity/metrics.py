"""The metrics of an engine: what it has done, and what it holds now.

``serving/observe/engine_metrics.py`` shows them to Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metrics:
    """A snapshot. The values down to ``engine_seconds`` count from the engine's start.

    Attributes:
        requests_stopped: requests whose last sample ended by itself.
        requests_at_limit: requests whose last sample reached a length limit.
        requests_aborted: requests that their callers ended.
        requests_failed: requests that ended with an error.
        prompt_positions: positions of prompts that were computed; those computed again after a
            preemption count again.
        cached_positions: positions that the prefix cache saved.
        generated_tokens: text tokens and frames.
        preempted_recompute, preempted_swap: preemptions of sequences, of each kind.
        copied_blocks: blocks copied because two samples of a prompt diverge within one.
        steps: steps of the model.
        model_seconds: time spent in them, or waiting for them where a device works by itself.
        engine_seconds: time spent on plans and outputs, and on giving such a device its work.
        running, waiting, swapped: sequences in each state now.
        blocks: all blocks of the device's pool.
        used_blocks: blocks that sequences hold.
        cached_blocks: blocks kept for later prompts that begin with the same tokens; they are
            evicted when room is needed.
        touched_blocks: blocks that have been used at least once; on a CPU no others take memory.
        block_bytes: the size of a block.
        block_positions: how many positions a block has.
    """

    requests_stopped: int = 0
    requests_at_limit: int = 0
    requests_aborted: int = 0
    requests_failed: int = 0
    prompt_positions: int = 0
    cached_positions: int = 0
    generated_tokens: int = 0
    preempted_recompute: int = 0
    preempted_swap: int = 0
    copied_blocks: int = 0
    steps: int = 0
    model_seconds: float = 0.0
    engine_seconds: float = 0.0
    running: int = 0
    waiting: int = 0
    swapped: int = 0
    blocks: int = 0
    used_blocks: int = 0
    cached_blocks: int = 0
    touched_blocks: int = 0
    block_bytes: int = 0
    block_positions: int = 0


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """Counts of sequences, blocks and preemptions, as :class:`Metrics` names them."""

    prompt_positions: int
    cached_positions: int
    preempted_recompute: int
    preempted_swap: int
    copied_blocks: int
    running: int
    waiting: int
    swapped: int
    blocks: int
    used_blocks: int
    cached_blocks: int
    touched_blocks: int
