"""An engine on a device that hangs, fails for good or has no memory, and after a fork."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ChatTTS.errors import DeviceLostError, EngineDeadError
from ChatTTS.model.cuda import failures
from ChatTTS.model.cuda.failures import PATIENCE_VARIABLE
from ChatTTS.model.velocity import executor as executors
from ChatTTS.model.velocity import worker as workers
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine
from ChatTTS.model.velocity.executor import InProcessExecutor
from ChatTTS.model.velocity.plan import Pending, StepMemoryError, StepPlan, StepResult
from ChatTTS.model.velocity.worker import Worker

from ....support.velocity_fakes import (
    FakeExecutor,
    Joined,
    endless,
    engine_threads,
    in_thread,
    make_async,
    make_engine,
    make_request,
    run_all,
)

from ChatTTS.model.velocity.cuda import decode  # isort: skip

STICKY = "CUDA error: an illegal memory access was encountered"


# ---------------------------------------------------------------- a device that hangs


class Endless:
    """Work of a device that hangs."""

    asked = 0

    def query(self) -> bool:
        self.asked += 1
        return False


def bare_worker(stream: Any, pending: Pending) -> Worker:
    """Return a worker that has a stream, and whose runner gives ``pending``."""
    worker = object.__new__(Worker)
    worker._stream, worker._is_lost, worker._patience = stream, False, 0.01
    runner: Any = SimpleNamespace(
        forget=lambda ended: None, add=lambda new: None, submit=lambda plan: pending
    )
    worker._runner = runner
    worker._stream_context = lambda: torch.inference_mode()  # type: ignore[method-assign]
    device = SimpleNamespace(placement=SimpleNamespace(device=torch.device("cuda")))
    worker.model = device  # type: ignore[assignment]
    return worker


def bare_executor(worker: Worker) -> InProcessExecutor:
    config: Any = None
    executor = InProcessExecutor(config)
    executor._worker = worker
    executor.depth = 2
    return executor


PLAN = StepPlan((), (), (), ())


def test_results_of_a_device_that_hangs_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_POLL_SECONDS", 0)
    event: Any = Endless()
    results = torch.zeros(2, 1, 8, dtype=torch.int32)
    with pytest.raises(DeviceLostError):
        decode._wait(results, np.arange(1), [0], event, 1, None, 0.001)
    assert event.asked > 1


def test_a_worker_of_a_device_that_hangs_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept, since freeing it would wait for the device; and it is waited for once."""
    given_back: list[int] = []
    monkeypatch.setattr(executors, "give_back_memory", lambda: given_back.append(1))
    monkeypatch.setattr(InProcessExecutor, "_lost", ())
    stream = Endless()
    pending = partial(failures.wait_for, stream, 0.0)
    executor = bare_executor(worker := bare_worker(stream, pending))  # type: ignore[arg-type]
    with pytest.raises(DeviceLostError):
        executor.submit(PLAN)()
    asked = stream.asked
    executor.close()
    assert stream.asked == asked
    assert InProcessExecutor._lost == (worker,)
    assert given_back == []

    executor = bare_executor(bare_worker(Endless(), lambda: None))  # type: ignore[arg-type, return-value]
    executor.close()
    assert len(InProcessExecutor._lost) == 2

    done = SimpleNamespace(query=lambda: True)
    executor = bare_executor(bare_worker(done, lambda: None))  # type: ignore[arg-type, return-value]
    executor.close()
    assert len(InProcessExecutor._lost) == 2
    assert given_back == [1]


def test_the_worker_takes_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "0")
    model: Any = SimpleNamespace(placement=SimpleNamespace(device=torch.device("cpu")))
    monkeypatch.setattr(workers, "ModelLoader", lambda *_: SimpleNamespace(load=lambda: model))
    config: Any = None
    assert Worker(config)._patience == math.inf


class OnGpu(FakeExecutor):
    """A fake executor that gives the advice of one on a GPU."""

    def advice(self, error: BaseException) -> str:
        return bare_executor(None).advice(error)  # type: ignore[arg-type]


def test_callers_and_the_end_do_not_wait_for_a_device_that_hangs() -> None:
    engine, executor = make_async(OnGpu())
    wait = in_thread(lambda: list(engine.stream([endless(1)])))
    executor.broken = DeviceLostError("the GPU has not answered for 60 s")
    with pytest.raises(EngineDeadError, match="answered for 60 s; start the process again"):
        wait()
    in_thread(engine.close)()
    assert not engine_threads()


# ---------------------------------------------------------------- errors that last


@pytest.mark.parametrize(
    ("text", "advice"),
    [(STICKY, "start the process again"), ("a bug", "load the model again")],
)
def test_advice_after_an_error(text: str, advice: str) -> None:
    engine, executor = make_async(OnGpu())
    executor.broken = RuntimeError(text)
    for _ in "ab":
        with pytest.raises(EngineDeadError) as caught:
            list(engine.stream([make_request()]))
        assert str(caught.value).rstrip(")").endswith(advice)


def test_a_worker_with_such_an_error_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InProcessExecutor, "_lost", ())

    def broken() -> StepResult:
        raise RuntimeError(STICKY)

    executor = bare_executor(bare_worker(stream := Endless(), broken))
    with pytest.raises(RuntimeError, match="illegal"):
        executor.submit(PLAN)()
    executor.close()
    assert stream.asked == 0
    assert len(InProcessExecutor._lost) == 1


# ---------------------------------------------------------------- too little memory


def test_a_worker_tells_too_little_memory_from_other_errors() -> None:
    for text, kind in (
        ("CUDA out of memory. Tried to allocate 2 GiB.\nMore", StepMemoryError),
        (STICKY, RuntimeError),
    ):
        worker = bare_worker(None, lambda: None)  # type: ignore[arg-type, return-value]

        def submit(plan: StepPlan, text: str = text) -> Pending:
            raise RuntimeError(text)

        worker._runner.submit = submit  # type: ignore[union-attr, method-assign]
        with pytest.raises(RuntimeError) as caught:
            worker.submit(PLAN)
        assert type(caught.value) is kind
        assert worker._is_lost is (kind is RuntimeError)
        assert "More" not in str(caught.value)


class Narrow(FakeExecutor):
    """An executor whose device has no memory for some plans.

    Attributes:
        refuses: tells for a plan whether there is none.
        early: whether it is told as the plan is given, and not as it is run.
    """

    def __init__(self, *, early: bool) -> None:
        super().__init__()
        self.early, self.depth, self.most_steps = early, 1 + early, 1
        self.refused: set[int] = set()
        self.refuses = lambda plan: False

    def submit(self, plan: StepPlan) -> Pending:
        if self.early:
            self._check(plan)
        return partial(self.execute_model, plan)

    def execute_model(self, plan: StepPlan) -> StepResult:
        if not self.early:
            self._check(plan)
        return super().execute_model(plan)

    def _check(self, plan: StepPlan) -> None:
        sequences = {work.seq_id for work in plan.work}
        assert not sequences & self.refused, "a sequence without memory goes on"
        if self.refuses(plan):
            self.refused |= sequences
            raise StepMemoryError("the device has no memory left for a step")


@pytest.mark.parametrize("early", [False, True])
def test_too_little_memory_ends_the_requests_of_the_step(early: bool) -> None:
    """Those in the refused plan get an error; one that waits, and later ones, go on."""
    executor = Narrow(early=early)
    engine, _ = make_engine(executor, max_num_seqs=2)
    first, second = make_request(1, min_new=30, n=1), make_request(2, min_new=30)
    waiting = make_request(3)
    engine.add([first, second, waiting])
    joined = Joined()
    for _ in range(4):
        joined.take(engine.step())
    plans: list[StepPlan] = []
    executor.refuses = lambda plan: not plans and not plans.append(plan)  # type: ignore[func-returns-value]
    run_all(engine, joined)
    assert set(joined.errors) == {first.request_id, second.request_id}
    assert all("no memory left" in text for text in joined.errors.values())
    joined.check(waiting)
    later = make_request(4, n=2)
    engine.add([later])
    run_all(engine, joined).check(later)
    metrics = engine.metrics()
    assert metrics.used_blocks == metrics.running == metrics.waiting == 0
    assert metrics.requests_failed == 2


def test_an_abort_and_too_little_memory_at_once() -> None:
    """Each request has one last output, whatever comes first."""
    executor = Narrow(early=True)
    engine, _ = make_engine(executor)
    requests = [make_request(seed, min_new=30) for seed in range(2)]
    engine.add(requests)
    joined = Joined()
    joined.take(engine.step())
    executor.refuses = lambda plan: True
    while (step := engine.schedule()) is not None and not step.is_refused:
        joined.take(engine.update(step, engine.execute(step)))
    assert step is not None
    output = engine.abort_request(requests[0].request_id)
    assert output is not None
    joined.take([output])
    joined.take(engine.update(step, engine.execute(step)))
    assert set(joined.errors) == {requests[1].request_id}
    assert joined.finished == {request.request_id for request in requests}
    assert engine.metrics().used_blocks == 0


# ---------------------------------------------------------------- forks


def test_the_child_of_a_fork_after_cuda_has_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks of a fork are called, as in the child, where CUDA would refuse every call."""
    monkeypatch.setattr(InProcessExecutor, "_lost", ())
    worker = bare_worker(Endless(), lambda: None)  # type: ignore[arg-type, return-value]
    inner = bare_executor(worker)

    class Forked(FakeExecutor):
        def after_fork(self) -> str | None:
            return inner.after_fork()

        def close(self) -> None:
            inner.close()

    engine, executor = make_async(Forked())
    wait = in_thread(lambda: list(engine.stream([endless(1)])))
    executor.hold()
    engine.after_fork()
    executor.let_go()
    with pytest.raises(EngineDeadError, match=r"requests stayed in the parent; .* no engine"):
        wait()
    with pytest.raises(EngineDeadError, match=r"the child has no engine.*spawn"):
        list(engine.stream([make_request()]))
    engine.close()
    assert worker._stream.asked == 0  # type: ignore[union-attr]
    assert InProcessExecutor._lost == (worker,)  # nothing of CUDA's is freed in the child


def test_the_child_of_a_fork_without_cuda_has_an_engine() -> None:
    executor = bare_executor(bare_worker(None, lambda: None))  # type: ignore[arg-type, return-value]
    executor._worker.model.placement.device = torch.device("cpu")  # type: ignore[union-attr, misc]
    assert executor.after_fork() is None
    engine: AsyncLLMEngine = make_async()[0]
    engine.after_fork()
    request = make_request()
    joined = Joined()
    for outputs in engine.stream([request]):
        joined.take(outputs)
    joined.check(request)
    engine.close()
