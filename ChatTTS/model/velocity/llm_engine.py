"""The engine: requests in, plans to the worker, outputs out, one step at a time."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...errors import EngineDeadError
from ..draws import DrawKey, Pass
from ..tokenizer import Prompt
from .collector import OutputCollector
from .configs import CacheConfig, EngineArgs, EngineConfig
from .executor import ExecutorBase, InProcessExecutor
from .metrics import Metrics
from .output import RequestOutput, aborted
from .plan import Pending, StepPlan, StepResult
from .request import EngineRequest
from .sampling_params import SamplingParams
from .scheduler import Scheduler
from .sequence import SequenceGroup


@dataclass(frozen=True)
class Flight:
    """A step that the workers are to carry out, or are carrying out.

    Attributes:
        plan: what it does.
        pending: waits for its result.
    """

    plan: StepPlan
    pending: Pending


class LLMEngine:
    """Moves all its requests forward, a step at a time. Not for several threads at once.

    Whoever has other threads takes :class:`AsyncLLMEngine`, which uses the three parts of
    :meth:`step` one by one: requests may be added and aborted while :meth:`execute` runs.

    Args:
        config: the settings.
        executor: who computes; the engine starts it and closes it.

    Raises:
        ChatTTSError: the model cannot be loaded, or has no room for its cache.
    """

    def __init__(self, config: EngineConfig, executor: ExecutorBase) -> None:
        self.config = config
        self.executor = executor
        self._init_workers()
        self._cache = self._init_cache()
        self._scheduling = executor.measure(config.scheduler)
        # Kept here: of an executor that was closed nothing may be asked.
        self._model, embed = executor.model, executor.embed
        self._ends = {Pass.CODE: embed.num_audio_tokens - 1, Pass.REFINE: executor.end_of_text}
        hidden = self._model.gpt.hidden_size
        self._no_hiddens = embed.text.weight.detach().new_empty(0, hidden).cpu()
        self._refusal: str | None = None
        self._closed = False
        self._seq_ids = itertools.count()
        # Whom the worker knows, with the length of the prompt.
        self._known: dict[int, int] = {}
        self._stale: tuple[int, ...] = ()  # whom it may forget, since a reset
        self._begin()

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> LLMEngine:
        """An engine whose worker lives in this process.

        Raises:
            ChatTTSError: a setting that makes no sense, or a file that cannot be used.
        """
        config = args.create_engine_config()
        return cls(config, InProcessExecutor(config))

    def _init_workers(self) -> None:
        """Load the model."""
        self.executor.init_workers()

    def _init_cache(self) -> CacheConfig:
        """Make the pools; the answer has their blocks counted."""
        return self.executor.init_cache()

    def _begin(self) -> None:
        """Begin with no request and no block in use."""
        sizes = self._model.gpt
        positions = sizes.max_position_embeddings
        self._collector = OutputCollector(sizes.num_vq, positions, self._no_hiddens)
        self._scheduler = Scheduler(self._scheduling, self._cache, max_positions=positions)
        self._flights: deque[Flight] = deque()
        self._steps = 0
        self._prompt_positions = 0
        self._model_seconds = 0.0
        self._engine_seconds = 0.0

    # ------------------------------------------------------------ requests come and go

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        sampling: SamplingParams,
        key: DrawKey,
        *,
        priority: float = 0,
    ) -> None:
        """Take one request; see :meth:`add` and ``EngineRequest``."""
        self.add([EngineRequest(request_id, prompt, sampling, key, priority)])

    def add(self, requests: Sequence[EngineRequest]) -> None:
        """Take requests, all or none, as they are now: later changes of their arrays are not seen.

        Raises:
            TextError, VoiceError, ConfigError: one of them does not fit the model, or its id is
                that of an unfinished request.
            GenerationError: a prompt does not fit the memory of the cache.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        self.begin(self.prepared(self.checked(requests)))

    def checked(self, requests: Sequence[EngineRequest]) -> list[EngineRequest]:
        """Copies of plain values for :meth:`prepared`; any thread may ask for them at any time.

        Raises:
            TextError, VoiceError, ConfigError: one of the requests does not fit the model.
        """
        return [request.checked(self._model) for request in requests]

    def prepared(self, requests: Sequence[EngineRequest]) -> list[SequenceGroup]:
        """Checked requests as :meth:`begin` takes them; changes nothing.

        Raises:
            GenerationError, EngineDeadError: as :meth:`add`.
        """
        if self._refusal is not None:
            raise EngineDeadError(self._refusal)
        groups = [self._group(request) for request in requests]
        for group in groups:
            self._scheduler.check(group)
        return groups

    def begin(self, groups: Sequence[SequenceGroup]) -> None:
        """Take requests that were prepared, all or none.

        Raises:
            ConfigError: an id is that of an unfinished request.
        """
        taken: list[SequenceGroup] = []
        try:
            for group in groups:
                self._scheduler.add(group)
                taken.append(group)
        except BaseException:
            for group in taken:
                self._scheduler.abort(group.request_id)
            raise
        self._collector.open.update((group.request_id, group) for group in taken)

    def abort_request(self, request_id: str) -> RequestOutput | None:
        """End a request, in whatever state it is, also while :meth:`execute` runs.

        Returns:
            Its last output, which no step will give; ``None`` where no unfinished request has
            this id.
        """
        group = self._collector.open.get(request_id)
        if group is None:
            return None
        output = self._collector.abort(group)
        self._scheduler.abort(request_id)
        return output

    def aborted(self, request: EngineRequest, samples: Mapping[int, float]) -> RequestOutput:
        """What the last output of an aborted request looks like; changes nothing.

        Args:
            samples: those that still ran, with their log-probabilities so far.
        """
        num_codebooks = request.num_codebooks(self._model)
        return aborted(request.request_id, samples, num_codebooks, self._no_hiddens)

    def has_unfinished_requests(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._collector.open)

    def _group(self, request: EngineRequest) -> SequenceGroup:
        return SequenceGroup(
            request.request_id,
            request.prompt,
            request.sampling,
            request.key,
            end_id=self._ends[request.key.kind],
            seq_ids=self._seq_ids,
            priority=request.priority,
        )

    # ------------------------------------------------------------ a step

    def step(self) -> list[RequestOutput]:
        """Move requests forward.

        Returns:
            What they gained; a request that gained nothing is not among them.

        Raises:
            EngineDeadError: the engine was closed, or an error ended it before.
            Exception: of the worker; every request has ended then, and the engine takes no more.
        """
        if self._refusal is not None:
            raise EngineDeadError(self._refusal)
        try:
            flight = self.schedule()
            if flight is None:
                return []
            return self.update(flight, self.execute(flight))
        except BaseException as error:
            self.fail(error)
            raise

    def schedule(self) -> Flight | None:
        """The first part of a step: what is to be done, or ``None`` where nothing is.

        Where the executor goes ahead, the step after this one is begun as well.
        """
        started = time.perf_counter()
        while len(self._flights) < self.executor.depth:
            if self._flights:
                plan = self._scheduler.schedule_ahead(self.executor.most_steps)
            else:
                plan = self._scheduler.schedule()
            if plan is None:
                break
            self._known.update((data.seq_id, len(data.prompt)) for data in plan.new)
            told, self._stale = replace(plan, ended=self._stale + plan.ended), ()
            self._flights.append(Flight(plan, self.executor.submit(told)))
        self._engine_seconds += time.perf_counter() - started
        if self._flights:
            return self._flights.popleft()
        if self.has_unfinished_requests():
            raise RuntimeError("requests wait and none can be moved: the scheduler is at fault")
        return None

    def execute(self, flight: Flight) -> StepResult:
        """The second part: the model computes."""
        started = time.perf_counter()
        result = flight.pending()
        self._model_seconds += time.perf_counter() - started
        return result

    def update(self, flight: Flight, result: StepResult) -> list[RequestOutput]:
        """The third part: what came of it."""
        plan = flight.plan
        started = time.perf_counter()
        self._steps += plan.steps
        for work in plan.work:
            of_prompt = self._known[work.seq_id] - work.start
            self._prompt_positions += max(0, min(work.count, of_prompt))
        for seq_id in plan.ended:
            self._known.pop(seq_id, None)
        outputs = self._collector.collect(self._scheduler.update(plan, result), result)
        for output in outputs:
            if output.error is not None:
                self._scheduler.abort(output.request_id)  # its other samples
        self._engine_seconds += time.perf_counter() - started
        return outputs

    # ------------------------------------------------------------ the end, and other states

    def metrics(self) -> Metrics:
        """Counts since the start (in a forked child, since the fork), and the present state."""
        stats = self._scheduler.stats
        return Metrics(
            **self._collector.counts,
            prompt_positions=self._prompt_positions,
            cached_positions=stats.hit_positions,
            preempted_recompute=stats.recomputed,
            preempted_swap=stats.swapped,
            copied_blocks=stats.copies,
            steps=self._steps,
            model_seconds=self._model_seconds,
            engine_seconds=self._engine_seconds,
            running=stats.num_running,
            waiting=stats.num_waiting,
            swapped=stats.num_swapped,
            blocks=stats.free_blocks + stats.cached_blocks + stats.used_blocks,
            used_blocks=stats.used_blocks,
            cached_blocks=stats.cached_blocks,
            touched_blocks=stats.touched_blocks,
            block_bytes=self._cache.block_bytes,
        )

    def reset(self) -> None:
        """Forget every request, whatever was going on, also in the middle of a step.

        All blocks are free then, and nothing is known of what they hold.
        """
        # Not by aborts: a thread may have stopped anywhere, so nothing can be said of the books.
        self._stale = tuple(self._known)
        self._known.clear()
        self._begin()

    def fail(self, error: BaseException) -> None:
        """Take no more work, since ``error`` ended a step; every request has ended."""
        self._refuse(f"an error ended the engine ({error}); load the model again")
        self.reset()

    def close(self) -> None:
        """Forget every request and let go of the model; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._refuse("the engine was closed; load the model again")
        self.reset()
        self.executor.close()

    def _refuse(self, why: str) -> None:
        """The first reason stays."""
        self._refusal = self._refusal or why
