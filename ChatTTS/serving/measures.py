"""What the server counts: for Prometheus, and a line of the log for each request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ..audio.samples import SAMPLE_RATE
from ..model.velocity.metrics import Metrics
from ..pipeline.schedules import FRAMES_PER_SECOND
from ..utils.lru import CacheCounts
from .errors import ServingError
from .requests import SpeechRequest

_WAITS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30.0, 60.0)
_FACTORS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 4.0)


@dataclass
class Record:
    """The times of one request; every time is in seconds of a clock that only goes forward.

    Attributes:
        request: see there.
        queued: seconds until its turn came.
        first: seconds to its first samples; ``None`` before.
        whole: seconds to its end; ``None`` before.
        samples: given so far.
        underruns: how often somebody who plays from the first sample on, at the request's tempo,
            had to wait.
        finish: ``stop``, ``length``, ``abort``, or the code of an error.
        is_cached: whether it was there already.
    """

    request: SpeechRequest
    clock: Callable[[], float] = time.monotonic
    queued: float = 0.0
    first: float | None = None
    whole: float | None = None
    samples: int = 0
    underruns: int = 0
    finish: str | None = None
    is_cached: bool = False
    _arrived: float = field(init=False)
    _heard_until: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._arrived = self.clock()

    @property
    def seconds(self) -> float:
        """Of speech, up to now."""
        return self.samples / SAMPLE_RATE

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work for a second of speech, without those in the queue."""
        if self.whole is None or not self.samples:
            return None
        return (self.whole - self.queued) / self.seconds

    def begun(self) -> None:
        """Its turn has come."""
        self.queued = self.clock() - self._arrived

    def heard(self, samples: int) -> None:
        """Samples went to the caller."""
        now = self.clock()
        if self.first is None:
            self.first = now - self._arrived
            self._heard_until = now
        elif now > self._heard_until:
            self.underruns += 1
            self._heard_until = now
        self._heard_until += samples / SAMPLE_RATE / self.request.speed
        self.samples += samples

    def failed(self, error: BaseException) -> None:
        """It ended early."""
        self.finish = error.code if isinstance(error, ServingError) else "abort"

    def ended(self) -> Record:
        """It is over; gives itself."""
        self.whole = self.clock() - self._arrived
        self.finish = self.finish or "abort"
        return self


class _Readings(Collector):
    """Numbers that others keep, read when somebody asks for them."""

    def __init__(self, read: Callable[[], Iterator[tuple[str, str, float]]]) -> None:
        self._read = read

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for name, what, value in self._read():
            if name.endswith("_total"):
                counter = CounterMetricFamily(name.removesuffix("_total"), what)
                counter.add_metric([], value)
                yield counter
            else:
                gauge = GaugeMetricFamily(name, what)
                gauge.add_metric([], value)
                yield gauge


class Measures:
    """All that is counted, in a registry of its own: servers of one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, open files

        def counter(name: str, what: str, *labels: str) -> Counter:
            return Counter(f"chattts_{name}", what, labels, registry=self.registry)

        def histogram(name: str, what: str, buckets: tuple[float, ...] = _WAITS) -> Histogram:
            return Histogram(f"chattts_{name}", what, buckets=buckets, registry=self.registry)

        self._requests = counter("requests", "Requests by how they ended.", "finish", "priority")
        self._refused = counter("refused", "Requests that were not taken.", "code")
        self._audio = counter("audio_seconds", "Speech that was given.")
        self._frames = counter("frames", "Frames of that speech.")
        self._underruns = counter("underruns", "Pauses that a listener heard.")
        self._queued = histogram("queue_seconds", "From arrival to the request's turn.")
        self._first = histogram("time_to_first_audio_seconds", "From arrival to first samples.")
        self._whole = histogram("latency_seconds", "From arrival to the end.")
        self._factor = histogram("real_time_factor", "Work for a second of speech.", _FACTORS)
        self._closed = counter("connections_closed", "Connections cut or refused.", "reason")
        self._connections = Gauge(
            "chattts_connections", "HTTP and WebSocket connections.", registry=self.registry
        )

    def note(self, record: Record) -> None:
        """Count a request that is over."""
        priority = record.request.priority.name.lower()
        self._requests.labels(record.finish, priority).inc()
        self._audio.inc(record.seconds)
        self._frames.inc(record.seconds * FRAMES_PER_SECOND)
        self._underruns.inc(record.underruns)
        self._queued.observe(record.queued)
        if record.first is not None:
            self._first.observe(record.first)
        if record.whole is not None:
            self._whole.observe(record.whole)
        if record.real_time_factor is not None and not record.is_cached:
            self._factor.observe(record.real_time_factor)

    def refused(self, error: ServingError) -> None:
        """Count a request that was not taken."""
        self._refused.labels(error.code).inc()

    def connection_closed(self, reason: str) -> None:
        """Count a connection that was cut or refused: ``full``, ``address`` or ``slow``."""
        self._closed.labels(reason).inc()

    def watch_connections(self, count: Callable[[], int]) -> None:
        """Show how many connections ``count`` tells of."""
        self._connections.set_function(count)

    def watch(
        self,
        queue: Callable[[], tuple[int, int]],
        engine: Callable[[], Metrics],
        caches: Callable[[], dict[str, CacheCounts]],
    ) -> None:
        """Show what others keep.

        Args:
            queue: running and waiting requests.
            engine: what the engine counts.
            caches: by name.
        """

        def read() -> Iterator[tuple[str, str, float]]:
            running, waiting = queue()
            yield "chattts_running", "Requests that are spoken.", running
            yield "chattts_waiting", "Requests that wait for their turn.", waiting
            metrics = engine()
            yield "chattts_kv_blocks", "Blocks of the KV cache.", metrics.blocks
            yield "chattts_kv_blocks_used", "Blocks that sequences hold.", metrics.used_blocks
            used = metrics.used_blocks / max(1, metrics.blocks)
            yield "chattts_kv_usage", "Share of the KV cache that sequences hold.", used
            size = metrics.block_bytes
            yield "chattts_kv_bytes", "Memory of the KV cache at most.", metrics.blocks * size
            touched = metrics.touched_blocks * size
            yield "chattts_kv_touched_bytes", "Of that, what was ever used.", touched
            prompt, hits = metrics.prompt_positions, metrics.cached_positions
            yield "chattts_prompt_positions_total", "Prompt positions computed.", prompt
            yield "chattts_prefix_hits_total", "Prompt positions the prompt cache had.", hits
            preempted = metrics.preempted_recompute + metrics.preempted_swap
            yield "chattts_preemptions_total", "Sequences that had to make room.", preempted
            yield (
                "chattts_engine_tokens_total",
                "Tokens and frames drawn.",
                metrics.generated_tokens,
            )
            for name, counts in caches().items():
                yield f"chattts_{name}_cache_hits_total", f"Hits, {name}.", counts.hits
                yield f"chattts_{name}_cache_misses_total", f"Misses, {name}.", counts.misses
                yield f"chattts_{name}_cache_weight", f"Kept now, {name}.", counts.weight

        self.registry.register(_Readings(read))

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)
