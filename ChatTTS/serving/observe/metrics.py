"""The server's metrics for Prometheus, and the times of each request."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping, Sequence
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

from ...audio.samples import SAMPLE_RATE
from ...pipeline.decode.schedules import FRAMES_PER_SECOND
from ...pipeline.results import Piece
from ...utils.lru import CacheCounts
from ..errors import ServingError
from ..requests.request import SpeechRequest
from .engine_metrics import ENGINE_METRICS, KV_BLOCK_POSITIONS, KV_BLOCKS, EngineState

# Upper bounds of the histograms' buckets.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 30.0, 60.0)
_LAGS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
_FACTORS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 4.0)


@dataclass
class RequestRecord:
    """Times and counts of one request. Times are in seconds of a monotonic clock.

    Attributes:
        request: the request.
        queued: seconds from its arrival to its turn.
        first_audio: seconds from its arrival to its first samples; ``None`` before.
        latency: seconds from its arrival to its end; ``None`` before.
        samples: given to the caller so far.
        underruns: how often a player would have had to wait that plays from the first sample on at
            the request's tempo.
        finish: ``stop``, ``length``, ``abort``, or the code of an error.
        is_cached: whether the result cache had the speech.
        faults: how many of each kind the guard found.
        attempts: how many times each utterance was generated, by its number.
        adapter: the name of the adapter that speaks, ``base`` for none; empty if none is loaded.
    """

    request: SpeechRequest
    clock: Callable[[], float] = time.monotonic
    queued: float = 0.0
    first_audio: float | None = None
    latency: float | None = None
    samples: int = 0
    underruns: int = 0
    finish: str | None = None
    is_cached: bool = False
    faults: Tally[str] = field(default_factory=Tally)
    attempts: dict[int, int] = field(default_factory=dict)
    adapter: str = ""
    _arrived: float = field(init=False)
    _played_until: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._arrived = self.clock()

    @property
    def seconds(self) -> float:
        """Seconds of speech so far."""
        return self.samples / SAMPLE_RATE

    @property
    def real_time_factor(self) -> float | None:
        """Seconds of work, without the time in the queue, for one second of speech."""
        if self.latency is None or not self.samples:
            return None
        return (self.latency - self.queued) / self.seconds

    def mark_started(self) -> None:
        """Note that its turn has come."""
        self.queued = self.clock() - self._arrived

    def add_samples(self, samples: int) -> None:
        """Count samples that go to the caller now."""
        now = self.clock()
        if self.first_audio is None:
            self.first_audio = now - self._arrived
            self._played_until = now
        elif now > self._played_until:
            self.underruns += 1
            self._played_until = now
        self._played_until += samples / SAMPLE_RATE / self.request.speed
        self.samples += samples

    @property
    def retries(self) -> int:
        """Return how many times utterances were generated again."""
        return sum(self.attempts.values()) - len(self.attempts)

    def add_guarded(self, piece: Piece) -> None:
        """Count the faults and the attempts that a piece tells."""
        self.faults.update(fault.kind for fault in piece.faults)
        # Several attempts at speech of exact duration are drawn in any case.
        if "duration" not in self.request.needs_word_times:
            self.attempts[piece.utterance] = piece.attempts

    def mark_failed(self, error: BaseException) -> None:
        """Note that it ended early."""
        self.finish = error.code if isinstance(error, ServingError) else "abort"

    def mark_ended(self) -> None:
        """Note that it is over."""
        self.latency = self.clock() - self._arrived
        self.finish = self.finish or "abort"


class _CallbackCollector(Collector):
    """Metrics that a callback reads from other objects at each scrape."""

    def __init__(self, read: Callable[[], Iterator[tuple[str, str, float]]]) -> None:
        self._read = read

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for name, description, value in self._read():
            if name.endswith("_total"):
                counter = CounterMetricFamily(name.removesuffix("_total"), description)
                counter.add_metric([], value)
                yield counter
            else:
                gauge = GaugeMetricFamily(name, description)
                gauge.add_metric([], value)
                yield gauge


class _CacheInfo(Collector):
    """The shape of the KV cache as labels, under the name that vLLM and llm-d use."""

    def __init__(self, engines: Callable[[], Sequence[EngineState]]) -> None:
        self._engines = engines

    def collect(self) -> Iterator[GaugeMetricFamily]:
        engines = [engine for engine in self._engines() if engine.is_live]
        if not engines:
            return
        labels = {
            "block_size": KV_BLOCK_POSITIONS.over(engines),
            "num_gpu_blocks": KV_BLOCKS.over(engines),
        }
        about = "The KV cache: positions of a block, and blocks on the device."
        gauge = GaugeMetricFamily("vllm:cache_config_info", about, labels=list(labels))
        gauge.add_metric([str(value) for value in labels.values()], 1)
        yield gauge


class ServerMetrics:
    """All metrics of one server, in a registry of its own: servers of one process do not mix."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, open files

        def counter(name: str, description: str, *labels: str) -> Counter:
            return Counter(f"chattts_{name}", description, labels, registry=registry)

        def histogram(
            name: str, description: str, buckets: tuple[float, ...] = _SECONDS
        ) -> Histogram:
            return Histogram(f"chattts_{name}", description, buckets=buckets, registry=registry)

        self._requests = counter("requests", "Requests by how they ended.", "finish", "priority")
        self._adapters = counter("adapter_requests", "Requests by their adapter.", "adapter")
        self._refused = counter("refused", "Requests that were not taken.", "code")
        self._audio = counter("audio_seconds", "Speech that was given.")
        self._frames = counter("frames", "Frames of that speech.")
        self._underruns = counter("underruns", "Pauses that a listener heard.")
        self._faults = counter("faults", "Faults that the guard found in the speech.", "kind")
        self._retries = counter("retries", "Utterances that were generated again.")
        self._queued = histogram("queue_seconds", "From arrival to the request's turn.")
        self._first_audio = histogram(
            "time_to_first_audio_seconds", "From arrival to first samples."
        )
        self._latency = histogram("latency_seconds", "From arrival to the end.")
        self._factor = histogram("real_time_factor", "Work for a second of speech.", _FACTORS)
        self._lag = histogram("loop_lag_seconds", "How late the event loop comes to work.", _LAGS)
        self._closed = counter("connections_closed", "Connections cut or refused.", "reason")
        self._connections = Gauge(
            "chattts_connections", "HTTP and WebSocket connections.", registry=registry
        )

    def count_request(self, record: RequestRecord) -> None:
        """Count a request that is over."""
        priority = record.request.priority.name.lower()
        self._requests.labels(record.finish, priority).inc()
        if record.adapter:
            self._adapters.labels(record.adapter).inc()
        self._audio.inc(record.seconds)
        self._frames.inc(record.seconds * FRAMES_PER_SECOND)
        self._underruns.inc(record.underruns)
        if not record.is_cached:
            self._retries.inc(record.retries)
            for kind, count in record.faults.items():
                self._faults.labels(kind).inc(count)
        self._queued.observe(record.queued)
        if record.first_audio is not None:
            self._first_audio.observe(record.first_audio)
        if record.latency is not None:
            self._latency.observe(record.latency)
        if record.real_time_factor is not None and not record.is_cached:
            self._factor.observe(record.real_time_factor)

    def count_refusal(self, error: ServingError) -> None:
        """Count a request that was refused."""
        self._refused.labels(error.code).inc()

    def count_closed_connection(self, reason: str) -> None:
        """Count a connection that was cut or refused.

        Args:
            reason: ``full``, ``address`` or ``slow``.
        """
        self._closed.labels(reason).inc()

    def observe_loop_lag(self, seconds: float) -> None:
        """Note by how much the event loop was late."""
        self._lag.observe(seconds)

    def watch_connections(self, count: Callable[[], int]) -> None:
        """Show the number of open connections, which ``count`` returns."""
        self._connections.set_function(count)

    def watch_scripts(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Show the number of scripts in each state, which ``count`` returns."""

        def read() -> Iterator[tuple[str, str, float]]:
            for state, number in count().items():
                yield f"chattts_scripts_{state}", f"Scripts that are {state}.", number

        self.registry.register(_CallbackCollector(read))

    def watch(
        self,
        queue: Callable[[], tuple[int, int]],
        engines: Callable[[], Sequence[EngineState]],
        caches: Callable[[], Mapping[str, CacheCounts]],
    ) -> None:
        """Show what these callbacks return at each scrape.

        Args:
            queue: numbers of running and of waiting requests.
            engines: the engine, or those of all replicas.
            caches: counts of the caches, by name.
        """

        def read() -> Iterator[tuple[str, str, float]]:
            running, waiting = queue()
            yield "chattts_running", "Requests that are spoken.", running
            yield "chattts_waiting", "Requests that wait for their turn.", waiting
            # The names that load balancers for language models, such as llm-d's, look for.
            yield "vllm:num_requests_running", "As chattts_running.", running
            yield "vllm:num_requests_waiting", "As chattts_waiting.", waiting
            known = engines()
            for metric in ENGINE_METRICS:
                yield metric.name, metric.description, metric.over(known)
            for name, counts in caches().items():
                yield f"chattts_{name}_cache_hits_total", f"Hits, {name}.", counts.hits
                yield f"chattts_{name}_cache_misses_total", f"Misses, {name}.", counts.misses
                yield f"chattts_{name}_cache_weight", f"Kept now, {name}.", counts.weight

        self.registry.register(_CallbackCollector(read))
        self.registry.register(_CacheInfo(engines))

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
