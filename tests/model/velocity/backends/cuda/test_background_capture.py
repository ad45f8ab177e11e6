"""Steps that are captured behind the start, while sequences run."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.model.cuda import capture_thread
from ChatTTS.model.random_numbers import Pass
from ChatTTS.model.velocity.worker import Worker

from .....support.capture_tools import EagerCapturer
from .....support.torch_references import use_torch_references
from .....support.velocity_driver import STEPS, Driver, Told, everything
from .....support.waiting import wait_until
from .test_engine import MODEL, make_worker, take_triton

from ChatTTS.model.velocity.backends.cuda.decode_steps import DecodeSteps  # isort: skip
from ChatTTS.model.velocity.backends.cuda.graph_runner import GraphRunner  # isort: skip
from ChatTTS.model.velocity.backends.cuda.prompt_steps import PromptSteps  # isort: skip
from ChatTTS.model.velocity.backends.cuda.captured_steps import CapturedSteps  # isort: skip


@pytest.fixture(autouse=True)
def _on_torch_references(monkeypatch: pytest.MonkeyPatch) -> None:
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)


def runner_of(worker: Worker) -> GraphRunner:
    runner = worker.capturable
    assert isinstance(runner, GraphRunner)
    return runner


def check_equal(found: dict[int, Told], expected: dict[int, Told]) -> None:
    """Compare the first steps: hidden states may differ as the references' products of sizes do."""
    assert found.keys() == expected.keys()
    for seq_id, own in found.items():
        other = expected[seq_id]
        assert own.ids[:STEPS] == other.ids[:STEPS]
        hiddens = [torch.stack(each.hiddens[:STEPS]) for each in (own, other)]
        torch.testing.assert_close(*hiddens, rtol=0, atol=2e-5)


def captured(part: PromptSteps | DecodeSteps) -> dict[bool, set[int]]:
    """Return the numbers of rows that are captured, by whether rows may have adapters."""
    found: dict[bool, set[int]] = {}
    for (_, adapted), step in part._captured.taken.items():
        found.setdefault(adapted, set()).add(step.rows)
    return found


def test_a_start_captures_the_fewest_and_the_most_rows() -> None:
    runner = runner_of(make_worker(behind=False))
    for part in runner._parts.all:
        assert captured(part) == {False: {part.buckets[0], part.buckets[-1]}}
    assert runner.left == sum(len(part.buckets) - 2 for part in runner._parts.all)
    rows = [shape.rows for shape in runner._left]
    assert rows == sorted(rows)
    while runner.capture_next():
        pass
    assert runner.left == 0
    for part in runner._parts.all:
        assert captured(part) == {False: set(part.buckets)}


def test_larger_steps_stand_for_those_that_are_missing() -> None:
    steps = CapturedSteps((1, 2, 4, 8))
    none: Any = None
    for rows, stands in (
        (8, [8, 8, 8, 8]),
        (1, [1, 8, 8, 8]),
        (4, [1, 4, 4, 8]),
        (2, [1, 2, 4, 8]),
    ):
        steps.add(rows, False, none)
        assert [steps.taken[size, False].rows for size in (1, 2, 4, 8)] == stands
    again: Any = object()
    steps.add(4, False, again)
    assert steps.taken[4, False].graph is again


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 10_000])
def test_few_captured_steps_give_the_ids_of_all(chunk: int) -> None:
    expected = Driver(make_worker(), everything()).run(STEPS, chunk=chunk)
    worker = make_worker(behind=False)
    check_equal(Driver(worker, everything()).run(STEPS, chunk=chunk), expected)
    assert runner_of(worker).left


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [3, 10_000])
def test_capturing_moves_no_sequence_in_flight(chunk: int) -> None:
    expected = Driver(make_worker(), everything()).run(STEPS, chunk=chunk)
    worker = make_worker(behind=False)
    runner, driver = runner_of(worker), Driver(worker, everything())
    before = runner.left
    while any(len(own.ids) < STEPS for own in driver.told.values()):
        driver.step(chunk=chunk)
        runner.capture_next()
    assert before > runner.left == 0
    check_equal(driver.told, expected)


def test_a_thread_captures_beside_the_steps() -> None:
    expected = Driver(make_worker(), everything()).run(STEPS)
    worker = make_worker(behind=False)
    runner = runner_of(worker)
    driver = Driver(worker, everything())
    driver.step()
    graph = capture_thread.CaptureThread([runner])
    found = driver.run(STEPS)
    assert graph.join(60)
    assert runner.left == 0
    check_equal(found, expected)


@pytest.mark.slow
def test_the_spare_steps_go_with_the_last_capture() -> None:
    runner = runner_of(make_worker(behind=False))
    assert runner.capture_next()
    assert runner._spare is not None
    held = weakref.ref(runner._spare.prompts)
    while runner.left:
        assert held() is not None
        runner.capture_next()
    gc.collect()
    assert held() is None
    assert not runner.capture_next()


def test_results_that_depend_on_the_rows_are_captured_at_once() -> None:
    """Otherwise a request that runs alone would change with the time since the start."""
    runner = runner_of(make_worker(behind=False, batch_invariant=False))
    assert runner.left == 0
    for part in runner._parts.all:
        assert captured(part) == {False: set(part.buckets)}


def test_too_little_memory_leaves_the_larger_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Driver(make_worker(), everything()).run(STEPS)
    worker = make_worker(behind=False)
    runner, driver = runner_of(worker), Driver(worker, everything())
    driver.step()

    def full(capturer: EagerCapturer, work: Callable[[], Any], warm_up: Any = None) -> Any:
        raise ConfigError("1 MiB of 2 MiB are free")

    monkeypatch.setattr(EagerCapturer, "capture", full)
    before = runner.left
    with pytest.raises(ConfigError, match="MiB"):
        runner.capture_next()
    assert runner.left == before > 0
    assert runner._spare is None
    check_equal(driver.run(STEPS), expected)


@pytest.mark.slow
def test_a_chat_captures_once_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread beside the load would hold it up."""
    may_capture = threading.Event()
    capture_next = GraphRunner.capture_next

    def capture(runner: GraphRunner) -> bool:
        assert may_capture.wait(60)
        return capture_next(runner)

    monkeypatch.setattr(GraphRunner, "capture_next", capture)
    chat = Chat()
    chat.load_or_raise("custom", custom_path=MODEL, device="cpu", use_vllm=True)
    [steps] = chat._loaded.capturables
    assert isinstance(steps, GraphRunner)
    assert steps.left
    may_capture.set()
    wait_until(lambda: not steps.left)
    chat.unload()


def test_an_engine_for_scripts_captures_behind_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from ChatTTS.model.velocity.configs import EngineArgs
    from ChatTTS.model.velocity.llm_engine import LLMEngine

    engine = LLMEngine.from_engine_args(EngineArgs(MODEL, device="cpu", kv_memory="8MB"))
    steps = engine.executor.capturable
    assert steps is not None
    wait_until(lambda: not steps.left)
    engine.close()


def test_padding_rows_of_a_larger_step_count_nothing() -> None:
    worker = make_worker(behind=False)
    Driver(worker, everything()[:1]).run(3)
    steps: DecodeSteps = runner_of(worker)._decode[Pass.CODE]
    assert steps._active[1:-1].tolist() == [0] * 4
    assert not steps._positions[1:-1].any()
