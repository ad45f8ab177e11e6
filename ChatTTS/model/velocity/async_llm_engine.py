"""One engine for many callers, in threads and in asyncio loops. Their requests share the batch."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from dataclasses import replace

from ...errors import EngineDeadError, GenerationError
from ...utils.device_loop import DeviceLoop
from ...utils.locks import new_lock
from ...utils.process_hooks import register_thread_owner
from ..generation import Cancellation, GenerationRequest
from ..random_numbers import DrawKey
from ..sampling_params import SamplingParams
from ..tokenizer import Prompt
from .configs import EngineArgs
from .llm_engine import LLMEngine
from .metrics import Metrics
from .output import RequestOutput
from .output_queue import AsyncOutputQueue, EngineEnd, OutputQueue, ThreadOutputQueue, put_all
from .output_reader import OutputReader
from .sequence import SequenceGroup

_NUMBERS = itertools.count()


class RequestTracker:
    """The output queue of each unfinished request.

    Callers of its methods hold the engine's lock.
    """

    def __init__(self) -> None:
        self._queues: dict[str, OutputQueue] = {}
        self._open: dict[OutputQueue, set[str]] = {}

    def add(self, output_queue: OutputQueue, request_ids: Sequence[str]) -> None:
        """Deliver the outputs of these requests to ``output_queue`` from now on.

        Args:
            request_ids: none that is here already.
        """
        # In this order: an open queue can be discarded, even if Ctrl-C comes between the two.
        self._open[output_queue] = set(request_ids)
        self._queues.update(dict.fromkeys(request_ids, output_queue))

    def __contains__(self, request_id: object) -> bool:
        """Return whether an unfinished request has this id."""
        return request_id in self._queues

    def discard(self, output_queue: OutputQueue) -> None:
        """Forget a queue and its requests."""
        for request_id in self._open.pop(output_queue, ()):
            self._queues.pop(request_id, None)

    def queue_of(self, request_id: str) -> OutputQueue | None:
        """Return the queue of an unfinished request, or ``None`` if there is no such request."""
        return self._queues.get(request_id)

    def unwanted(self) -> list[tuple[OutputQueue, list[str]]]:
        """Return the queues that were abandoned or cancelled, with their unfinished requests."""
        return [(queue, list(ids)) for queue, ids in self._open.items() if not queue.is_wanted]

    def unfinished(self) -> list[str]:
        """Return the ids of all unfinished requests."""
        return list(self._queues)

    def deliver(self, outputs: Iterable[RequestOutput]) -> None:
        """Put the outputs into the queues of their requests, one item for each queue."""
        items: dict[OutputQueue, list[RequestOutput]] = {}
        for output in outputs:
            output_queue = self._queues[output.request_id]
            items.setdefault(output_queue, []).append(output)
            if output.finished:
                del self._queues[output.request_id]
                self._open[output_queue].discard(output.request_id)
                if not self._open[output_queue]:
                    del self._open[output_queue]
        put_all(items.items())

    def fail(self, end: EngineEnd) -> None:
        """End all requests with an error."""
        put_all([(output_queue, end) for output_queue in self._open])
        self._queues.clear()
        self._open.clear()

    def abandon_all(self) -> None:
        """Mark every queue as abandoned, so that its requests are aborted."""
        for output_queue in self._open:
            output_queue.abandon()

    def after_fork(self, advice: str) -> None:
        """In a forked child: tell all callers that their requests stay with the parent.

        Args:
            advice: what a caller should do.
        """
        for output_queue in self._open:
            output_queue.after_fork(advice)


class AsyncLLMEngine:
    """Runs an engine in the thread of a loop, which exists only while there are requests.

    Every method may be called from any thread. Each caller waits for its requests only. A
    caller that reads slowly, stops reading, or sends a request that cannot be done has no effect
    on the others. Only the engine's thread changes the engine's state, so Ctrl-C in the main
    thread never leaves a change half done.

    In a child process after ``os.fork`` the engine is empty, and the requests stay with the parent.
    It is usable there, unless it computes on a GPU or in other processes. At the interpreter's end
    the engine closes itself.

    Attributes:
        loop: gives the engine its turns; where the device works by itself, others share it.
    """

    def __init__(self, engine: LLMEngine) -> None:
        self.engine = engine
        self._tracker = RequestTracker()
        # Held for every use of the engine and the tracker, but not while the model computes.
        self._lock = new_lock()
        # Beside a device that works by itself the loop only moves results. A team of threads for
        # each of them would cost more than it saves, and take the cores of what waits for them.
        self.loop = DeviceLoop("velocity", 1 if engine.executor.depth > 1 else None)
        # What the loop does before the next step.
        self._begun: deque[tuple[OutputQueue, list[SequenceGroup]]] = deque()
        self._aborted: deque[tuple[OutputQueue, str]] = deque()
        self._closed = False
        register_thread_owner(self)

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> AsyncLLMEngine:
        """Load an engine.

        Raises:
            ChatTTSError: a setting has an invalid value, or a file cannot be used.
        """
        return cls(LLMEngine.from_engine_args(args))

    def stream(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation | None = None
    ) -> Generator[list[RequestOutput], None, None]:
        """Run requests together; return an iterator over what they gain in each step.

        The requests are checked in this call. They are added, all or none, when the first item is
        asked for. Once ``cancelled`` is set, the next item ends every sample that still runs with
        ``FinishReason.ABORT``, and outputs that were not read yet are dropped. Closing the iterator
        ends the requests within a step.

        Raises:
            TextError, VoiceError, ConfigError: a request does not fit the model.
            GenerationError: a prompt does not fit the KV cache.
            ConfigError: an id is that of an unfinished request (with the first item).
            EngineDeadError: the engine was closed, or an error ended it (with any item).
        """
        return self._stream(self.engine.checked(requests), cancelled)

    def _stream(
        self, requests: Sequence[GenerationRequest], cancelled: Cancellation | None
    ) -> Generator[list[RequestOutput], None, None]:
        """Run checked requests."""
        output_queue = ThreadOutputQueue(cancelled)
        reader = OutputReader(self.engine, requests, output_queue)
        try:
            if requests:
                self.submit(requests, output_queue)
            while not reader.is_over:
                is_cancelled = output_queue.is_cancelled
                yield list(reader.cancelled() if is_cancelled else reader.read(output_queue.get()))
        finally:
            output_queue.abandon()

    def submit(self, requests: Sequence[GenerationRequest], output_queue: OutputQueue) -> None:
        """Add checked requests, all or none; their outputs go to ``output_queue``.

        Args:
            requests: at least one, as ``LLMEngine.checked`` gives them.

        Raises:
            ConfigError: an id is that of an unfinished request.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        with self._lock:
            if self._closed:
                raise EngineDeadError("the engine was closed; load the model again")
            groups = self.engine.new_groups(requests, taken=self._tracker)
            # The tracker first: if Ctrl-C comes between the two, the caller abandons its queue,
            # and that aborts whatever was begun.
            self._tracker.add(output_queue, [request.request_id for request in requests])
            self._begun.append((output_queue, groups))
            self.loop.begin(self)

    def generate(
        self,
        prompt: Prompt,
        sampling: SamplingParams,
        key: DrawKey,
        *,
        request_id: str | None = None,
        priority: float = 0,
        cancelled: Cancellation | None = None,
        adapter: str | None = None,
    ) -> AsyncGenerator[RequestOutput, None]:
        """Run one request; return an asynchronous iterator over what it gains.

        The request is checked in this call. It is added when the first output is asked for, and
        aborted within a step once the consumer leaves (``aclose``, a cancelled task) or
        ``cancelled`` is set.

        Args:
            request_id: the id for :meth:`abort`; by default a new one.
            adapter: the name of a loaded adapter; by default the checkpoint alone.

        Raises:
            TextError, VoiceError, ConfigError: the request does not fit the model.
            GenerationError: the prompt does not fit the KV cache; or the model's answer
                cannot be used (with any output).
            ConfigError: the id is that of an unfinished request (with the first output).
            EngineDeadError: the engine was closed, or an error ended it (with any output).
        """
        name = f"async-{next(_NUMBERS)}" if request_id is None else request_id
        [request] = self.engine.checked(
            [
                GenerationRequest(
                    prompt, sampling, key, adapter=adapter, request_id=name, priority=priority
                )
            ]
        )
        return self._generate(request, cancelled)

    async def _generate(
        self, request: GenerationRequest, cancelled: Cancellation | None
    ) -> AsyncGenerator[RequestOutput, None]:
        """Run a checked request."""
        output_queue = AsyncOutputQueue(cancelled)
        finished = False
        try:
            self.submit([request], output_queue)
            while not finished:
                for output in await output_queue.get():
                    if output.error is not None:
                        raise GenerationError(output.error)
                    finished = output.finished
                    yield output
        finally:
            output_queue.abandon()

    def abort(self, request_id: str) -> None:
        """End a request within a step; its caller gets ``FinishReason.ABORT``.

        Unknown ids are ignored.
        """
        with self._lock:
            output_queue = self._tracker.queue_of(request_id)
            if output_queue is not None:
                self._aborted.append((output_queue, request_id))

    def metrics(self) -> Metrics:
        """Return counts since the start, and the present state."""
        with self._lock:
            metrics = self.engine.metrics()
            return replace(metrics, waiting=metrics.waiting + self._coming)

    @property
    def _coming(self) -> int:
        """The number of requests that the thread adds before its next step."""
        return sum(len(groups) for _, groups in self._begun)

    def close(self) -> None:
        """Abort all requests, wait for the step that is running, and release the model."""
        with self._lock:
            self._closed = True
        self.loop.wait_for_rest(self)
        with self._lock:
            self.engine.close()

    def at_exit(self) -> None:
        """At the interpreter's end: close the engine without waking any caller."""
        with self._lock:
            self._tracker.abandon_all()
        self.close()

    def after_fork(self) -> None:
        """In a forked child: begin with no requests, whatever the parent was doing."""
        self._begun.clear()
        self._aborted.clear()
        reason = self.engine.after_fork()
        self._tracker.after_fork(reason or "ask for them again")
        self._tracker = RequestTracker()

    def _catch_up(self) -> None:
        """Do what callers asked for since the last step, with the lock held."""
        while self._begun:
            output_queue, groups = self._begun.popleft()
            if not output_queue.is_abandoned:
                self.engine.add_groups(groups)
        while self._aborted:
            output_queue, request_id = self._aborted.popleft()
            # By now the request may have ended, and a later one may have its id.
            if self._tracker.queue_of(request_id) is output_queue:
                self._abort([request_id])
        if self._closed:
            self._abort(self._tracker.unfinished())
        for output_queue, request_ids in self._tracker.unwanted():
            self._abort(request_ids)
            self._tracker.discard(output_queue)

    def _abort(self, request_ids: Iterable[str]) -> None:
        """End requests and tell their callers, with the lock held."""
        outputs = [self.engine.abort_request(request_id) for request_id in request_ids]
        self._tracker.deliver(output for output in outputs if output is not None)

    def turn(self) -> float | None:
        """Do one step; return ``None`` if there is nothing to do. The loop's thread calls this."""
        try:
            return 0.0 if self._step() else None
        except BaseException as error:  # whatever it is, no caller may be left waiting
            with self._lock:
                advice = self.engine.fail(error, self._coming)
                self._begun.clear()
                self._aborted.clear()
                self._tracker.fail(EngineEnd(error, advice))
            return None

    def _step(self) -> bool:
        """Do one step; return ``False`` if there is nothing to do."""
        with self._lock:
            self._catch_up()
            plan = self.engine.schedule()
            if plan is None and not self.engine.is_computing:
                return False
        step = self.engine.execute(plan)
        if step is not None:
            with self._lock:
                self._tracker.deliver(self.engine.update(step))
        return True
