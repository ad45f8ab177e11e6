"""An engine on a device that hangs, fails for good or has no memory, and after a fork."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ChatTTS import core
from ChatTTS.core import Chat
from ChatTTS.errors import DeviceLostError, EngineDeadError
from ChatTTS.model.cuda import failures
from ChatTTS.model.cuda.failures import PATIENCE_VARIABLE
from ChatTTS.model.generation import GenerationRequest
from ChatTTS.model.velocity import worker as workers
from ChatTTS.model.velocity.async_llm_engine import AsyncLLMEngine
from ChatTTS.model.velocity.executor import InProcessExecutor
from ChatTTS.model.velocity.executor import in_process as executors
from ChatTTS.model.velocity.llm_engine import LLMEngine
from ChatTTS.model.velocity.plan import Pending, StepMemoryError, StepPlan, StepResult
from ChatTTS.model.velocity.worker import Worker

from .....support.torch_references import use_torch_references
from .....support.velocity_fakes import (
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
from .test_engine import make_engine as make_captured_engine
from .test_engine import make_requests, some_work, take_triton

from ChatTTS.model.velocity.backends.cuda import decode_steps as decode  # isort: skip
from ChatTTS.model.velocity.backends.cuda.slots import SlotRows  # isort: skip

STICKY = "CUDA error: an illegal memory access was encountered"


@pytest.fixture(autouse=True)
def _nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "LOST", threading.Event())
    monkeypatch.setattr(InProcessExecutor, "_lost", ())


# ---------------------------------------------------------------- a device that hangs


class Endless:
    """A stream of a device that hangs, and the event behind its work."""

    asked = 0

    def record_event(self) -> Endless:
        return self

    def query(self) -> bool:
        self.asked += 1
        return False


def bare_worker(stream: Any, pending: Pending) -> Worker:
    """Return a worker that has a stream, and whose runner gives ``pending``."""
    worker = object.__new__(Worker)
    worker._stream, worker._is_lost, worker._patience = stream, False, 0.01
    worker.depth = 2
    runner: Any = SimpleNamespace(
        forget=lambda ended: None,
        add=lambda new: None,
        execute_model=lambda plan: pending,
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


def nothing() -> StepResult:
    raise AssertionError("these steps give no result")


def test_results_of_a_device_that_hangs_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_POLL_SECONDS", 0)
    event: Any = Endless()
    results = torch.zeros(2, 1, 8, dtype=torch.int32)
    with pytest.raises(DeviceLostError):
        decode._wait(results, np.arange(1), 1, event, np.arange(3), None, 0.001)
    assert event.asked > 1


def test_a_worker_of_a_device_that_hangs_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is kept, since freeing it would wait for the device; and it is waited for once."""
    given_back: list[int] = []
    monkeypatch.setattr(executors, "give_back_memory", lambda: given_back.append(1))
    stream = Endless()
    pending = partial(failures.wait_for, stream, 0.0)
    executor = bare_executor(worker := bare_worker(stream, pending))  # type: ignore[arg-type]
    with pytest.raises(DeviceLostError):
        executor.execute_model(PLAN)()
    asked = stream.asked
    executor.close()
    assert stream.asked == asked
    assert InProcessExecutor._lost == (worker,)
    assert given_back == []

    executor = bare_executor(bare_worker(Endless(), nothing))
    executor.close()
    assert len(InProcessExecutor._lost) == 2

    done = SimpleNamespace(record_event=lambda: SimpleNamespace(query=lambda: True))
    executor = bare_executor(bare_worker(done, nothing))
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


def test_a_worker_with_such_an_error_is_kept() -> None:
    def broken() -> StepResult:
        raise RuntimeError(STICKY)

    executor = bare_executor(bare_worker(stream := Endless(), broken))
    with pytest.raises(RuntimeError, match="illegal"):
        executor.execute_model(PLAN)()
    executor.close()
    assert stream.asked == 0
    assert len(InProcessExecutor._lost) == 1
    assert failures.LOST.is_set()


# ---------------------------------------------------------------- too little memory


def test_a_worker_tells_too_little_memory_from_other_errors() -> None:
    for text, kind in (
        ("CUDA out of memory. Tried to allocate 2 GiB.\nMore", StepMemoryError),
        (STICKY, RuntimeError),
    ):
        worker = bare_worker(None, nothing)

        def execute_model(plan: StepPlan, text: str = text) -> Pending:
            raise RuntimeError(text)

        worker._runner.execute_model = execute_model  # type: ignore[union-attr, method-assign]
        with pytest.raises(RuntimeError) as caught:
            worker.execute_model(PLAN)
        assert type(caught.value) is kind
        assert worker._is_lost is (kind is RuntimeError)
        assert "More" not in str(caught.value)


class Narrow(FakeExecutor):
    """An executor whose device has no memory for some plans.

    Attributes:
        refuses: tells for a plan whether there is none.
        early: whether it is told as the plan is given, and not with its result.
    """

    def __init__(self, *, early: bool) -> None:
        super().__init__()
        self.early, self.depth, self.max_steps = early, 1 + early, 1
        self.refused: set[int] = set()
        self.refuses: Callable[[StepPlan], bool] = lambda plan: False

    def execute_model(self, plan: StepPlan) -> Pending:
        if self.early:
            self._check(plan)
        return partial(self._result, plan)

    def _result(self, plan: StepPlan) -> StepResult:
        if not self.early:
            self._check(plan)
        return super().execute_model(plan)()

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
    executor.refuses = lambda plan: not plans and plans.append(plan) is None  # type: ignore[func-returns-value]
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
    assert metrics.steps == executor.steps  # without the plan that was refused


def test_an_abort_and_too_little_memory_at_once() -> None:
    """Each request has one last output, whatever comes first."""
    executor = Narrow(early=True)
    engine, _ = make_engine(executor)
    requests = [make_request(seed, min_new=30) for seed in range(2)]
    engine.add(requests)
    joined = Joined()
    joined.take(engine.step())
    executor.refuses = lambda plan: True
    while (step := engine.execute(engine.schedule())) is None or isinstance(
        step.result, StepResult
    ):
        joined.take([] if step is None else engine.update(step))
    output = engine.abort_request(requests[0].request_id)
    assert output is not None
    joined.take([output])
    joined.take(engine.update(step))
    assert set(joined.errors) == {requests[1].request_id}
    assert joined.finished == {request.request_id for request in requests}
    assert engine.metrics().used_blocks == 0


def test_rows_are_emptied_after_a_call_that_failed() -> None:
    """They would go on writing into blocks of other sequences; and the turns stay in step."""
    embed: Any = SimpleNamespace(num_codebooks=4, end_of_speech=625, code=nn.Embedding(8, 16))
    none: Any = None
    pool = torch.zeros(4, 1, 2, 1, 8, 4)
    steps = decode.DecodeSteps(none, embed, pool, none, max_rows=3, max_positions=32)
    replays = iter([None, RuntimeError("CUDA out of memory."), None, None])

    def replay() -> None:
        if (error := next(replays)) is not None:
            raise error

    graph: Any = SimpleNamespace(replay=replay)
    steps._captured.add(2, False, graph)
    with pytest.raises(RuntimeError, match="memory"):
        steps.sample(*some_work(0, 1), 2)
    assert steps._turns == 1
    steps.sample(*some_work(0, 1), 1)
    write = steps._rows.write

    def refused(*_: Any) -> None:
        raise RuntimeError("CUDA out of memory.")

    steps._rows.write = refused  # type: ignore[assignment, method-assign]
    with pytest.raises(RuntimeError, match="memory"):
        steps.sample(*some_work(2), 1)  # the others have not left their rows
    steps._rows.write = write  # type: ignore[method-assign]
    pending = steps.sample(*some_work(7), 1)
    assert steps._active[:3].tolist() == [1, 0, 0]
    assert steps._table_of[:3].tolist() == [0, -1, -1]
    assert steps._slot_of[:3].tolist() == [0, 4, 5]
    assert steps._ids[0, 0] == 7
    assert len(pending().ids) == 1


@pytest.mark.slow
def test_ids_beside_and_after_a_step_without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """On captured steps: those that do not end with an error keep their ids."""
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    engine, _ = make_captured_engine()
    requests = make_requests(8)
    expected = run_all(engine, added(engine, requests))
    write, calls = SlotRows.write, [0]

    def without_memory(rows: SlotRows, *given: Any) -> None:
        calls[0] += 1
        if calls[0] == 9:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        write(rows, *given)

    monkeypatch.setattr(SlotRows, "write", without_memory)
    found = run_all(engine, added(engine, requests))
    assert 0 < len(found.errors) < len(requests)
    monkeypatch.setattr(SlotRows, "write", write)
    again = run_all(engine, added(engine, requests))
    assert not again.errors
    for request in requests:
        for sample in range(request.sampling.n):
            ids = expected.ids(request, sample)
            assert again.ids(request, sample) == ids
            if request.request_id not in found.errors:
                assert found.ids(request, sample) == ids
    assert engine.metrics().used_blocks == 0


def added(engine: LLMEngine, requests: list[GenerationRequest]) -> Joined:
    engine.add(requests)
    return Joined()


# ---------------------------------------------------------------- memory of dropped models


def test_unloading_gives_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When nothing holds the model any more; the next cache is sized by what is free then."""
    seen: list[bool] = []
    dropped: list[weakref.ref[Any]] = []
    model = nn.Module()  # a namespace that can be referred to weakly
    model.gpt = SimpleNamespace(close=lambda: None)  # type: ignore[assignment]
    dropped.append(weakref.ref(model))
    chat = Chat()
    chat._model = model  # type: ignore[assignment]
    del model
    monkeypatch.setattr(core, "give_back_memory", lambda: seen.append(dropped[0]() is None))
    chat.unload()
    assert seen == [True]

    order: list[str] = []
    monkeypatch.setattr(workers, "give_back_memory", lambda: order.append("give back"))
    monkeypatch.setattr(
        torch.cuda,
        "mem_get_info",
        lambda device: order.append("ask") or (5, 9),  # type: ignore[func-returns-value]
    )
    worker = bare_worker(None, nothing)
    assert worker._free_memory() == 5
    assert order == ["give back", "ask"]


# ---------------------------------------------------------------- forks


def test_the_child_of_a_fork_after_cuda_has_no_engine() -> None:
    """The hooks of a fork are called, as in the child, where CUDA would refuse every call."""
    worker = bare_worker(Endless(), nothing)
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
    executor = bare_executor(bare_worker(None, nothing))
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
