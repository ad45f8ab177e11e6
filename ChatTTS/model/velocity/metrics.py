"""What an engine has done and what it holds, as plain numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Metrics:
    """A snapshot. Counts go up from the engine's start; the rest holds at this moment.

    Attributes:
        requests_stopped: whose last sample ended by itself; requests, like the next three.
        requests_at_limit: whose last sample met a limit of length.
        requests_aborted: by their callers.
        requests_failed: with an error.
        prompt_positions: positions of prompts that were computed, again after a preemption too.
        cached_positions: positions that the prefix cache saved.
        generated_tokens: text tokens and frames.
        preempted_recompute, preempted_swap: sequences that had to make room.
        copied_blocks: since two samples of a prompt part within one.
        steps: of the model.
        model_seconds: spent in them.
        engine_seconds: spent on plans and outputs, between them.
        running, waiting, swapped: sequences.
        blocks: of the device's pool in all.
        used_blocks: held by sequences.
        cached_blocks: held for prompts that begin alike; they give way when room is needed.
        touched_blocks: that were ever held; on a CPU no others have memory.
        block_bytes: of a block.
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

    def as_dict(self) -> dict[str, int | float]:
        """By name."""
        return asdict(self)
