"""The supervisor of the model's process starts it again when it has ended."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ChatTTS.errors import AssetError, ChatTTSError
from ChatTTS.serving.replicas.model_process.supervisor import Pauses, Supervisor
from ChatTTS.serving.replicas.pool import Facts

from ...support.replica_fakes import PRINT

FACTS = Facts(PRINT, True, False, None)


class Started:
    """A process that ends when the test says so."""

    def __init__(self, error: ChatTTSError | None = None) -> None:
        self._error, self._ended = error, threading.Event()
        self.close = self._ended.set

    def facts(self) -> Facts:
        if self._error is not None:
            raise self._error
        return FACTS

    def wait(self) -> str:
        self._ended.wait()
        return "was ended by SIGKILL"


class Used:
    """A pool that notes the processes."""

    def __init__(self) -> None:
        self.processes: list[Any] = []
        self.changed = threading.Semaphore(0)

    def use(self, process: Any) -> None:
        self.processes.append(process)
        self.changed.release()


def test_a_process_that_ends_is_started_again(caplog: pytest.LogCaptureFixture) -> None:
    first, wrong, last = Started(), Started(AssetError("no weights")), Started()
    left, pool = [first, wrong, last], Used()
    pauses = Pauses(first=0.0, longest=0.0)
    supervisor = Supervisor(lambda: left.pop(0), pool, pauses)  # type: ignore[arg-type,return-value]
    assert supervisor.begin() == FACTS
    assert pool.changed.acquire(timeout=60)
    first.close()
    assert pool.changed.acquire(timeout=60)
    assert pool.processes == [first, last]
    supervisor.close()
    supervisor._thread.join(60)
    assert (left, last._ended.is_set()) == ([], True)
    assert "was ended by SIGKILL: it is started again" in caplog.text
    assert "no weights" in caplog.text


def test_a_model_that_cannot_be_loaded_is_an_error_of_the_start() -> None:
    supervisor = Supervisor(lambda: Started(AssetError("no weights")), Used())  # type: ignore[arg-type,return-value]
    with pytest.raises(AssetError, match="no weights"):
        supervisor.begin()
    supervisor.close()
