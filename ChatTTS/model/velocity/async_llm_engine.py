"""One engine for many callers, in threads and in asyncio loops: their requests share the batch."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import replace

from ...errors import ConfigError, EngineDeadError, GenerationError
from ...utils.locks import new_lock
from ...utils.process_hooks import register_thread_owner, start_thread
from ..draws import DrawKey
from ..generation import Cancellation
from ..tokenizer import Prompt
from .configs import EngineArgs
from .llm_engine import LLMEngine
from .metrics import Metrics
from .output import RequestOutput
from .request import EngineRequest
from .sampling_params import SamplingParams
from .sequence import SequenceGroup
from .sinks import LoopSink, Sink, ThreadSink, hand_over

_NUMBERS = itertools.count()


class RequestTracker:
    """Which caller waits for which requests. Whoever uses it holds the engine's lock."""

    def __init__(self) -> None:
        self._sinks: dict[str, Sink] = {}
        self._open: dict[Sink, set[str]] = {}

    def add(self, sink: Sink, request_ids: Sequence[str]) -> None:
        """From now on ``sink`` gets what these requests gain.

        Raises:
            ConfigError: an unfinished request has one of the ids, or two of these have the same.
        """
        names: set[str] = set()
        for request_id in request_ids:
            if request_id in self._sinks or request_id in names:
                raise ConfigError(
                    f"the request id {request_id!r} is taken: give each request one of its own"
                )
            names.add(request_id)
        # In this order: a sink that is open can be discarded, wherever Ctrl-C came in between.
        self._open[sink] = names
        self._sinks.update(dict.fromkeys(request_ids, sink))

    def discard(self, sink: Sink) -> None:
        """Forget a sink and its requests."""
        for request_id in self._open.pop(sink, ()):
            self._sinks.pop(request_id, None)

    def sink_of(self, request_id: str) -> Sink | None:
        """The sink of an unfinished request; ``None`` if there is no such request."""
        return self._sinks.get(request_id)

    def unwanted(self) -> list[tuple[Sink, list[str]]]:
        """The callers who have left or cancelled, with their unfinished requests."""
        return [(sink, list(ids)) for sink, ids in self._open.items() if not sink.is_wanted]

    def unfinished(self) -> list[str]:
        """All requests."""
        return list(self._sinks)

    def deliver(self, outputs: Iterable[RequestOutput]) -> None:
        """Hand the outputs over, to each caller in one item."""
        gained: dict[Sink, list[RequestOutput]] = {}
        for output in outputs:
            sink = self._sinks[output.request_id]
            gained.setdefault(sink, []).append(output)
            if output.finished:
                del self._sinks[output.request_id]
                self._open[sink].discard(output.request_id)
                if not self._open[sink]:
                    del self._open[sink]
        hand_over(gained.items())

    def fail(self, error: BaseException) -> None:
        """Tell every caller that nothing comes any more, and why."""
        hand_over([(sink, error) for sink in self._open])
        self._sinks.clear()
        self._open.clear()

    def leave(self) -> None:
        """Nobody listens any more."""
        for sink in self._open:
            sink.leave()

    def after_fork(self) -> None:
        """In a forked child: the requests stay with the parent."""
        for sink in self._open:
            sink.after_fork()


class AsyncLLMEngine:
    """Runs an engine in a thread of its own while there is anything to do, and in none otherwise.

    Every method may be called from any thread. Callers wait for their own requests alone: whoever
    is slow to take what he gets, goes away, or gives the engine something that it cannot do, is
    not noticed by the others. The engine's books are kept by its own thread alone, so that Ctrl-C
    never leaves them half written.

    In a child process after ``os.fork`` the engine is empty and works on; the requests stay with
    the parent. At the interpreter's end it closes itself.
    """

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self._tracker = RequestTracker()
        # Held for all that is done with the engine and the tracker, but not while the model
        # computes.
        self._lock = new_lock()
        # What the thread does before its next step.
        self._begun: deque[tuple[Sink, list[SequenceGroup]]] = deque()
        self._aborted: deque[tuple[Sink, str]] = deque()
        self._thread: threading.Thread | None = None
        self._closed = False
        register_thread_owner(self)

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> AsyncLLMEngine:
        """As :meth:`LLMEngine.from_engine_args`."""
        return cls(LLMEngine.from_engine_args(args))

    def stream(
        self, requests: Sequence[EngineRequest], cancelled: Cancellation | None = None
    ) -> Generator[list[RequestOutput], None, None]:
        """Run requests together and give what they gain, step by step, in the calling thread.

        They are taken, all or none, when the first item is asked for. Once ``cancelled`` is set,
        the next item ends every sample that still runs with ``FinishReason.ABORT``; what was
        generated and not yet asked for is dropped. Closing the iterator frees everything within
        a step.

        Raises:
            TextError, VoiceError, ConfigError: a request that does not fit the model.
            GenerationError: a prompt that does not fit the memory of the cache.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        if not requests:
            return
        requests = self.engine.checked(requests)
        sink = ThreadSink(cancelled)
        # Of each request the samples that still run, with their log-probabilities so far.
        running = {
            request.request_id: dict.fromkeys(range(request.num_given), 0.0) for request in requests
        }
        try:
            self._add(requests, sink)
            while running:
                outputs = None if sink.is_cancelled else sink.get()
                if outputs is None or sink.is_cancelled:
                    yield [
                        self.engine.aborted(request, running[request.request_id])
                        for request in requests
                        if request.request_id in running
                    ]
                    return
                for output in outputs:
                    samples = running[output.request_id]
                    for delta in output.deltas:
                        samples[delta.sample] = delta.logprob
                        if delta.finish is not None:
                            del samples[delta.sample]
                    if output.finished:
                        del running[output.request_id]
                yield list(outputs)
        finally:
            sink.leave()

    async def generate(
        self,
        prompt: Prompt,
        sampling: SamplingParams,
        key: DrawKey,
        *,
        request_id: str | None = None,
        priority: float = 0,
        cancelled: Cancellation | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        """Run one request and give what it gains, in the calling asyncio loop.

        It is taken when the first output is asked for, and aborted within a step once the
        consumer leaves (``aclose``, a cancelled task) or ``cancelled`` is set.

        Args:
            request_id: for :meth:`abort`; one is made up by default.

        Raises:
            TextError, VoiceError, ConfigError: the request does not fit the model.
            GenerationError: the model's answer cannot be used, or the prompt does not fit the
                memory of the cache.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        name = f"async-{next(_NUMBERS)}" if request_id is None else request_id
        request = EngineRequest(name, prompt, sampling, key, priority)
        [request] = self.engine.checked([request])
        sink = LoopSink(cancelled)
        finished = False
        try:
            self._add([request], sink)
            while not finished:
                for output in await sink.get():
                    if output.error is not None:
                        raise GenerationError(output.error)
                    finished = output.finished
                    yield output
        finally:
            sink.leave()

    def abort(self, request_id: str) -> None:
        """End a request within a step; its caller gets ``FinishReason.ABORT``.

        Unknown ids are ignored.
        """
        with self._lock:
            sink = self._tracker.sink_of(request_id)
            if sink is not None:
                self._aborted.append((sink, request_id))

    def metrics(self) -> Metrics:
        """Counts up to now."""
        with self._lock:
            metrics = self.engine.metrics()
            coming = sum(len(groups) for _, groups in self._begun)
            return replace(metrics, waiting=metrics.waiting + coming)

    def close(self) -> None:
        """Abort everything, wait for the step that is running, and let go of the model."""
        with self._lock:
            self._closed = True
            thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()
        with self._lock:
            self.engine.close()

    def at_exit(self) -> None:
        """At the interpreter's end: as :meth:`close`, but nobody is told."""
        with self._lock:
            self._tracker.leave()
        self.close()

    def after_fork(self) -> None:
        """In a forked child: begin anew, whatever the parent was just doing."""
        self._thread = None
        self._begun.clear()
        self._aborted.clear()
        self._tracker.after_fork()
        self._tracker = RequestTracker()
        self.engine.reset()

    def _add(self, requests: Sequence[EngineRequest], sink: Sink) -> None:
        """Take checked requests, all or none, and see to it that a thread steps the engine."""
        with self._lock:
            if self._closed:
                raise EngineDeadError("the engine was closed; load the model again")
            groups = self.engine.prepared(requests)
            # The tracker first: where Ctrl-C comes in between, the sink that its caller leaves
            # ends whatever was begun.
            self._tracker.add(sink, [request.request_id for request in requests])
            self._begun.append((sink, groups))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="velocity", daemon=True)
                start_thread(self._thread)

    def _catch_up(self) -> None:
        """Do what callers asked for since the last step, with the lock held."""
        while self._begun:
            sink, groups = self._begun.popleft()
            if not sink.has_left:
                self.engine.begin(groups)
        while self._aborted:
            sink, request_id = self._aborted.popleft()
            # A later request may have the id of one that has ended meanwhile.
            if self._tracker.sink_of(request_id) is sink:
                self._abort([request_id])
        if self._closed:
            self._abort(self._tracker.unfinished())
        for sink, request_ids in self._tracker.unwanted():
            self._abort(request_ids)
            self._tracker.discard(sink)

    def _abort(self, request_ids: Iterable[str]) -> None:
        """End requests and tell their callers, with the lock held."""
        outputs = [self.engine.abort_request(request_id) for request_id in request_ids]
        self._tracker.deliver(output for output in outputs if output is not None)

    def _run(self) -> None:
        """Step while there is anything to do; the thread's work."""
        try:
            while self._step():
                pass
        except BaseException as error:  # nobody must be left waiting, whatever it was
            with self._lock:
                self.engine.fail(error)
                self._begun.clear()
                self._aborted.clear()
                self._tracker.fail(error)
                self._thread = None

    def _step(self) -> bool:
        """One step; false when there is nothing to do."""
        with self._lock:
            if self._thread is not threading.current_thread():
                return False  # Ctrl-C left it behind while it started
            self._catch_up()
            flight = self.engine.schedule()
            if flight is None:
                self._thread = None
                return False
        result = self.engine.execute(flight)
        with self._lock:
            self._tracker.deliver(self.engine.update(flight, result))
        return True
