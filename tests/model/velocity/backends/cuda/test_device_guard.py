"""Launches happen while the model's device is the current one: Triton looks at nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

from ChatTTS.model.cuda import graphs
from ChatTTS.model.velocity.backends.cuda import graph_runner
from ChatTTS.model.velocity.worker import Worker

from .....support.capture_tools import EagerCapturer
from .....support.torch_references import KERNELS, USERS, use_torch_references
from .....support.velocity_fakes import Joined, run_all
from .test_engine import make_engine, make_requests, take_triton


class Guard:
    """A stand-in for the current device; it notes launches that happen while none is set.

    Attributes:
        launches: how many launches were seen.
        outside: the names of the kernels that were launched outside of a guard.
    """

    def __init__(self) -> None:
        self.launches = 0
        self.outside: set[str] = set()
        self._depth = 0

    @contextmanager
    def held(self, *_: Any) -> Iterator[None]:
        """Make the device the current one."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def watched(self, name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return a kernel whose launches are noted."""

        @wraps(kernel)
        def launch(*args: Any, **kwargs: Any) -> Any:
            self.launches += 1
            if not self._depth:
                self.outside.add(name)
            return kernel(*args, **kwargs)

        return launch


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Guard:
    """Watch the references; capturers, the worker's stream and ``on_device`` set the device."""
    guard = Guard()
    take_triton(monkeypatch)
    use_torch_references(monkeypatch)
    for user in USERS:
        for name in KERNELS:
            if hasattr(user, name):
                monkeypatch.setattr(user, name, guard.watched(name, getattr(user, name)))

    class GraphCapturer(EagerCapturer):
        def capture(self, work: Callable[[], Any], warm_up: Any = None) -> Any:
            def guarded() -> Any:
                with guard.held():
                    return work()

            return super().capture(guarded, warm_up)

    monkeypatch.setattr(graphs, "CudaGraphCapturer", lambda *_, **__: GraphCapturer())
    monkeypatch.setattr(graph_runner, "on_device", guard.held)
    monkeypatch.setattr(Worker, "_stream_context", guard.held)
    return guard


def test_the_engine_launches_on_its_device(guard: Guard) -> None:
    """Prompts, codes and texts, and all that is compiled and captured at the start."""
    engine, _ = make_engine(swap_memory="1MB")
    for request in make_requests(5):
        engine.add([request])
    run_all(engine, Joined())
    assert guard.launches > 100
    assert guard.outside == set()
