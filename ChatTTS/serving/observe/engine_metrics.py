"""The metrics of engines, and how each of them combines where several replicas have engines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ...model.velocity.metrics import Metrics

# Names of Prometheus' Python client (``multiprocess_mode``), and ``livemean``. Those that begin
# with ``live`` leave out the engines that are gone.
Mode = Literal["sum", "livesum", "livemax", "livemean"]


@dataclass(frozen=True)
class EngineState:
    """The known state of one engine.

    Attributes:
        metrics: its last snapshot.
        is_live: whether it still runs; the counts of one that is gone stay in the sums, so that
            these never fall.
    """

    metrics: Metrics
    is_live: bool = True


@dataclass(frozen=True)
class EngineMetric:
    """One metric of ``/metrics``.

    Attributes:
        name: in Prometheus; a counter's ends with ``_total``.
        description: in Prometheus.
        mode: how the values of several engines combine.
        value: reads the value of one engine.
        weight: reads the weight of one engine in a mean.
    """

    name: str
    description: str
    mode: Mode
    value: Callable[[Metrics], float]
    weight: Callable[[Metrics], float] = lambda _: 1

    def over(self, engines: Sequence[EngineState]) -> float:
        """Return the value over all engines; 0 where there is none."""
        taken = [each.metrics for each in engines if each.is_live or self.mode == "sum"]
        if self.mode == "livemax":
            return max(map(self.value, taken), default=0)
        if self.mode == "livemean":
            weights = sum(map(self.weight, taken))
            total = sum(self.value(each) * self.weight(each) for each in taken)
            return total / weights if weights else 0
        return sum(map(self.value, taken))


def _usage(metrics: Metrics) -> float:
    return metrics.used_blocks / max(1, metrics.blocks)


def _blocks(metrics: Metrics) -> float:
    return metrics.blocks


KV_BLOCKS = EngineMetric("chattts_kv_blocks", "Blocks of the KV cache.", "livesum", _blocks)
KV_BLOCK_POSITIONS = EngineMetric(
    "chattts_kv_block_positions",
    "Positions of a block.",
    "livemax",
    lambda metrics: metrics.block_positions,
)
KV_BYTES = EngineMetric(
    "chattts_kv_bytes",
    "Memory of the KV cache at most.",
    "livesum",
    lambda metrics: metrics.blocks * metrics.block_bytes,
)
KV_TOUCHED_BYTES = EngineMetric(
    "chattts_kv_touched_bytes",
    "Of that, what was ever used.",
    "livesum",
    lambda metrics: metrics.touched_blocks * metrics.block_bytes,
)

ENGINE_METRICS = (
    EngineMetric(
        "chattts_engines", "Engines whose model is in memory.", "livesum", lambda metrics: 1
    ),
    KV_BLOCKS,
    EngineMetric(
        "chattts_kv_blocks_used",
        "Blocks that sequences hold.",
        "livesum",
        lambda metrics: metrics.used_blocks,
    ),
    EngineMetric(
        "chattts_kv_usage",
        "Share of the KV cache that sequences hold.",
        "livemean",
        _usage,
        _blocks,
    ),
    # The name that load balancers for language models, such as llm-d's, look for.
    EngineMetric(
        "vllm:kv_cache_usage_perc", "As chattts_kv_usage, 0 to 1.", "livemean", _usage, _blocks
    ),
    KV_BYTES,
    KV_BLOCK_POSITIONS,
    KV_TOUCHED_BYTES,
    EngineMetric(
        "chattts_prompt_positions_total",
        "Prompt positions computed.",
        "sum",
        lambda metrics: metrics.prompt_positions,
    ),
    EngineMetric(
        "chattts_prefix_hits_total",
        "Prompt positions the prompt cache had.",
        "sum",
        lambda metrics: metrics.cached_positions,
    ),
    EngineMetric(
        "chattts_preemptions_total",
        "Sequences that had to make room.",
        "sum",
        lambda metrics: metrics.preempted_recompute + metrics.preempted_swap,
    ),
    EngineMetric(
        "chattts_engine_tokens_total",
        "Tokens and frames drawn.",
        "sum",
        lambda metrics: metrics.generated_tokens,
    ),
)
