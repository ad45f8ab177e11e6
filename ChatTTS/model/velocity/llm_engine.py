"""The engine: it takes requests, has the executor run steps, and returns outputs."""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...errors import ConfigError, EngineDeadError, EngineUnavailableError
from ..cuda.capture_thread import capture_in_background
from ..generation import NO_ATTENTION, GenerationRequest
from ..random_numbers import DrawKey, Pass
from ..sampling_params import SamplingParams
from ..tokenizer import Prompt
from .configs import EngineArgs, EngineConfig
from .executor import ExecutorBase, make_executor
from .metrics import Metrics, SchedulerStats
from .output import RequestOutput
from .output_processor import OutputProcessor
from .plan import Pending, StepMemoryError, StepPlan, StepResult
from .request import checked_request
from .scheduler import Scheduler
from .sequence import SequenceGroup

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Step:
    """A plan with its result, or with the reason why it has none."""

    plan: StepPlan
    result: StepResult | StepMemoryError


class LLMEngine:
    """Moves all its requests forward, one step at a time. It is not thread-safe.

    A program with several threads uses :class:`~.async_llm_engine.AsyncLLMEngine`. That one calls
    the three parts of :meth:`step` separately: requests may be added and aborted while
    :meth:`execute` runs.

    Args:
        config: the settings.
        executor: runs the model. The engine starts it and closes it.

    Raises:
        ChatTTSError: the model cannot be loaded, or there is no memory for its cache.
    """

    def __init__(self, config: EngineConfig, executor: ExecutorBase) -> None:
        self.config = config
        self.executor = executor
        executor.init_workers()
        try:
            self._cache = executor.init_cache()
        except BaseException:
            executor.close()
            raise
        self._checkpoint = executor.checkpoint
        self._gives_attention, self._adapters = executor.gives_attention, executor.adapters
        self._ends = {
            Pass.CODE: self._checkpoint.embed.end_of_speech,
            Pass.REFINE: executor.end_of_text,
        }
        self._no_hiddens = torch.empty(
            0, self._checkpoint.gpt.hidden_size, dtype=executor.placement.dtype, device="cpu"
        )
        self._no_result = StepResult(
            np.zeros((0, self._checkpoint.gpt.num_vq), dtype=np.int64),
            self._no_hiddens,
            np.zeros(0, dtype=np.float32),
            np.zeros(0, dtype=np.bool_),
        )
        self._refusal: str | None = None
        self._closed = False
        self._seq_ids = itertools.count()
        self._count_from_here()
        self._begin()

    @classmethod
    def from_engine_args(cls, args: EngineArgs) -> LLMEngine:
        """Load an engine.

        Raises:
            ChatTTSError: a setting has an invalid value, or a file cannot be used.
        """
        config = args.create_engine_config()
        engine = cls(config, make_executor(config))
        if (steps := engine.executor.capturable) is not None:
            capture_in_background([steps])
        return engine

    def _count_from_here(self) -> None:
        """Set all counts to 0, and forget the open requests."""
        sizes = self._checkpoint.gpt
        positions = sizes.max_position_embeddings
        self._outputs = OutputProcessor(sizes.num_vq, positions, self._no_hiddens)
        self._past = SchedulerStats()  # of the schedulers before
        self._steps = 0
        self._model_seconds = 0.0
        self._engine_seconds = 0.0

    def _begin(self, stale: Iterable[int] = ()) -> None:
        """Make a state without requests and without blocks in use.

        Args:
            stale: sequences of the state before, which the worker knows.
        """
        self._scheduler = Scheduler(
            self.config.scheduler,
            self._cache,
            max_positions=self._checkpoint.gpt.max_position_embeddings,
            holds_back=self.executor.stages == 1,
            stale=stale,
        )
        # Plans whose results have not been used yet, each with its future. No plan follows one that
        # the executor did not take, before the sequences of that one have ended.
        self._in_flight: deque[tuple[StepPlan, Pending | StepMemoryError]] = deque()
        self._is_refused = False

    # ------------------------------------------------------------ adding and aborting requests

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        sampling: SamplingParams,
        key: DrawKey,
        *,
        priority: float = 0,
        adapter: str | None = None,
    ) -> None:
        """Check and add one request; see :meth:`add` and ``GenerationRequest``."""
        self.add(
            [
                GenerationRequest(
                    prompt, sampling, key, adapter=adapter, request_id=request_id, priority=priority
                )
            ]
        )

    def add(self, requests: Sequence[GenerationRequest]) -> None:
        """Check and add requests, all or none. They are copied: later changes have no effect.

        Raises:
            TextError, VoiceError, ConfigError: a request does not fit the model, or its id is that
                of an unfinished request.
            GenerationError: a prompt does not fit the KV cache.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        self.add_groups(self.new_groups(self.checked(requests)))

    def checked(self, requests: Sequence[GenerationRequest]) -> list[GenerationRequest]:
        """Return checked copies for :meth:`new_groups`. Any thread may call this at any time.

        Raises:
            TextError, VoiceError, ConfigError: a request does not fit the model.
            GenerationError: a prompt does not fit the KV cache.
            EngineUnavailableError: a request has alignment heads, and the workers give no
                attention.
        """
        checked = [
            checked_request(request, self._checkpoint, self._cache.capacity, self._adapters)
            for request in requests
        ]
        if not self._gives_attention and any(request.alignment_heads for request in checked):
            raise EngineUnavailableError(NO_ATTENTION)
        return checked

    def new_groups(
        self, requests: Sequence[GenerationRequest], taken: Container[str] = ()
    ) -> list[SequenceGroup]:
        """Return checked requests as :meth:`add_groups` takes them. This adds nothing.

        Args:
            taken: ids of requests that are to be added before these.

        Raises:
            ConfigError: an id is taken, or that of an unfinished request, or two are equal.
            EngineDeadError: the engine was closed, or an error ended it.
        """
        self._check_alive()
        groups: dict[str, SequenceGroup] = {}
        for request in requests:
            name = request.request_id
            if name in groups or name in taken or name in self._scheduler:
                raise ConfigError(
                    f"a request with the id {name!r} is not finished yet: give every request an "
                    "id of its own"
                )
            groups[name] = self._group(request)
        return list(groups.values())

    def add_groups(self, groups: Sequence[SequenceGroup]) -> None:
        """Add requests of :meth:`new_groups`."""
        for group in groups:
            self._scheduler.add(group)
            self._outputs.open[group.request_id] = group

    def abort_request(self, request_id: str) -> RequestOutput | None:
        """End a request in any state, also while :meth:`execute` runs.

        Returns:
            Its last output, which no step will return; ``None`` if no unfinished request has this
            id.
        """
        group = self._outputs.open.get(request_id)
        if group is None:
            return None
        output = self._outputs.abort(group)
        self._scheduler.abort(request_id)
        return output

    def aborted(self, request: GenerationRequest, samples: Mapping[int, float]) -> RequestOutput:
        """Return what the last output of an aborted request looks like. This aborts nothing.

        Args:
            samples: the samples that had not ended, each with its log-probability so far.
        """
        return self._outputs.aborted(request, samples)

    def has_unfinished_requests(self) -> bool:
        """Return whether any request has not ended yet."""
        return bool(self._outputs.open)

    def _group(self, request: GenerationRequest) -> SequenceGroup:
        return SequenceGroup(request, end_id=self._ends[request.key.kind], seq_ids=self._seq_ids)

    # ------------------------------------------------------------ a step

    def step(self) -> list[RequestOutput]:
        """Move requests forward.

        Returns:
            What they gained. A request that gained nothing has no output.

        Raises:
            EngineDeadError: the engine was closed, or an error ended it before.
            Exception: an error of the worker. It ends all requests, and the engine takes no more.
        """
        self._check_alive()
        try:
            while True:
                plan = self.schedule()
                if plan is None and not self.is_computing:
                    return []
                step = self.execute(plan)
                if step is not None:  # not while the executor takes more plans
                    return self.update(step)
        except BaseException as error:
            self.fail(error)
            raise

    @property
    def is_computing(self) -> bool:
        """Return whether results are to come of plans that the executor was given."""
        return bool(self._in_flight)

    def schedule(self) -> StepPlan | None:
        """Do the first part of a step: return the next plan for :meth:`execute`.

        It is ``None`` if there is nothing to do, or if a result has to come first.
        """
        started = time.perf_counter()
        depth, stages, in_flight = self.executor.depth, self.executor.stages, self._in_flight
        if in_flight and (self._is_refused or len(in_flight) == depth):
            plan = None
        elif not in_flight or stages > 1:
            plan = self._scheduler.schedule(stages)
        else:
            plan = self._scheduler.schedule_ahead(self.executor.max_steps)
        if plan is None and self.has_unfinished_requests() and not self._in_flight:
            raise RuntimeError("requests wait and none can be moved: the scheduler is at fault")
        self._engine_seconds += time.perf_counter() - started
        return plan

    def execute(self, plan: StepPlan | None) -> Step | None:
        """Do the second part of a step: run the model.

        Args:
            plan: a new plan. Without one, only wait for the oldest in flight.

        Returns:
            The oldest plan in flight, with its result; ``None`` if the executor takes another plan
            before it is waited for.
        """
        if plan is not None:
            self._in_flight.append((plan, self._submit(plan)))
            if len(self._in_flight) < self.executor.depth:
                return None
        started = time.perf_counter()
        oldest, pending = self._in_flight.popleft()
        result: StepResult | StepMemoryError
        try:
            result = pending if isinstance(pending, StepMemoryError) else pending()
        except StepMemoryError as error:
            result = error
        self._is_refused = self._is_refused and bool(self._in_flight)
        self._model_seconds += time.perf_counter() - started
        return Step(oldest, result)

    def _submit(self, plan: StepPlan) -> Pending | StepMemoryError:
        """Give a plan to the executor; return the error if it does not take it."""
        started = time.perf_counter()
        try:
            return self.executor.execute_model(plan)
        except StepMemoryError as error:
            self._is_refused = True
            return error
        finally:
            spent = time.perf_counter() - started
            if self.executor.depth > 1:  # the work has only begun, and the host goes on
                self._engine_seconds += spent
            else:
                self._model_seconds += spent

    def update(self, step: Step) -> list[RequestOutput]:
        """Do the third part of a step: return what the requests gained by the result.

        Without a result the requests of the plan end with an error, and the others go on.
        """
        plan, result = step.plan, step.result
        started = time.perf_counter()
        if isinstance(result, StepMemoryError):
            logger.warning("%d sequences end: %s", len(plan.work), result)
            ended, result = self._scheduler.fail_plan(plan, str(result)), self._no_result
        else:
            ended = self._scheduler.update(plan, result)
            self._steps += plan.steps
        outputs = self._outputs.process(ended, result)
        for output in outputs:
            if output.error is not None:
                self._scheduler.abort(output.request_id)  # its other samples
        if not self._in_flight and (lost := self._scheduler.num_lost):
            logger.error(
                "%d blocks of the KV cache stayed with no request, and are free again: tell the "
                "authors of this package, with the lines before",
                lost,
            )
            self._renew()
        self._engine_seconds += time.perf_counter() - started
        return outputs

    # ------------------------------------------------------------ metrics, errors and the end

    def metrics(self) -> Metrics:
        """Return counts since the start (or the fork, in a child), and the present state."""
        return Metrics(
            **self._outputs.counts,
            **vars(self._scheduler.stats.after(self._past)),
            steps=self._steps,
            model_seconds=self._model_seconds,
            engine_seconds=self._engine_seconds,
            block_bytes=self._cache.block_bytes,
            block_positions=self._cache.block_size,
        )

    def reset(self) -> None:
        """Forget every request, at any time, also in the middle of a step.

        Afterwards all blocks are free, and the prefix cache is empty.
        """
        self._end_all("requests_aborted")

    def _end_all(self, count: str) -> None:
        """Forget every request; the field ``count`` of the metrics counts them."""
        # Not by aborting requests: a thread may have stopped at any instruction, so the state of
        # the scheduler cannot be relied on.
        self._outputs.end_all(count)
        self._renew()

    def _renew(self) -> None:
        """Make a state without requests and without blocks in use, with the counts of this one."""
        self._past = self._scheduler.stats.after(self._past)
        self._begin(self._scheduler.known)

    def after_fork(self) -> str | None:
        """In a forked child: forget every request, as :meth:`reset` does, and all counts.

        Returns:
            Why the engine takes no more requests, or ``None`` if it does.
        """
        reason = self.executor.after_fork()
        self.reset()
        self._count_from_here()
        if reason is not None:
            self._refuse(reason)
        return reason

    def fail(self, error: BaseException, begun: int = 0) -> str:
        """End every request and take no more, because ``error`` ended a step.

        Args:
            begun: how many requests end that were to be added next.

        Returns:
            What the callers should do.
        """
        advice = self.executor.advice(error)
        self._refuse(f"an error ended the engine ({error}); {advice}")
        self._outputs.counts["requests_failed"] += begun
        self._end_all("requests_failed")
        return advice

    def close(self) -> None:
        """Forget every request and release the model. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._refuse("the engine was closed; load the model again")
        self.reset()
        self.executor.close()

    def _refuse(self, why: str) -> None:
        """Take no more requests; of several reasons the first is kept."""
        self._refusal = self._refusal or why

    def _check_alive(self) -> None:
        if self._refusal is not None:
            raise EngineDeadError(self._refusal)
