"""Starts the model's process, and starts it again whenever it has ended."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....errors import ChatTTSError
from ....utils.locks import new_lock
from ....utils.process_hooks import start_thread
from ..failover import Patience
from ..front import ReplicatedModel
from ..options import LoadOptions
from ..pool import Facts
from .pool import ProcessPool
from .process import PROGRAM, ModelProcess
from .wire import Start

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pauses:
    """The pauses before a process is started again, in seconds.

    Attributes:
        first: after one that did not live long; it doubles with each one that follows.
        longest: of them.
        enough: a process that lived for so long is replaced at once.
    """

    first: float = 1.0
    longest: float = 30.0
    enough: float = 60.0


class Supervisor:
    """Keeps one process running, and tells a pool of each one that is ready.

    Args:
        start: starts a process.
        pool: sends it calls.
        pauses: before it is started again.
    """

    def __init__(
        self, start: Callable[[], ModelProcess], pool: ProcessPool, pauses: Pauses | None = None
    ) -> None:
        self._start, self._pool, self._pauses = start, pool, pauses or Pauses()
        self._lock, self._closing = new_lock(), threading.Event()
        self._process: ModelProcess | None = None
        self._thread = threading.Thread(target=self._watch, name="model process", daemon=True)

    def begin(self) -> Facts:
        """Start the first process; return its facts when it is ready.

        Raises:
            ChatTTSError: the model cannot be loaded.
        """
        _, facts = self._started()
        start_thread(self._thread)
        return facts

    def close(self) -> None:
        """End the process, and start no other one; blocks until it is gone."""
        self._closing.set()
        with self._lock:
            process = self._process
        if process is not None:
            process.close()

    def _started(self) -> tuple[ModelProcess, Facts]:
        with self._lock:
            self._process = process = self._start()
        if self._closing.is_set():
            process.close()
        facts = process.facts()
        self._pool.use(process)
        return process, facts

    def _watch(self) -> None:
        """Start the process again and again, until this is closed."""
        process, began, pause = self._process, time.monotonic(), 0.0
        while True:
            if process is not None:
                how = process.wait()
                process.close()
                if self._closing.is_set():
                    return
                if time.monotonic() - began >= self._pauses.enough:
                    pause = 0.0
                logger.error("the model's process %s: it is started again in %g s", how, pause)
            if self._closing.wait(pause):
                return
            pause = min(self._pauses.longest, max(self._pauses.first, 2 * pause))
            try:
                process, _ = self._started()
            except ChatTTSError as error:
                process = None
                if not self._closing.is_set():
                    logger.error("the model's process cannot start, try again soon: %s", error)
            else:
                began = time.monotonic()
                logger.info("the model's process is ready again")


@contextmanager
def model_in_process(
    load: LoadOptions, log_form: str, log_level: int, program: str = PROGRAM
) -> Iterator[ReplicatedModel]:
    """Run the model in a process of its own within this context; yield the model of the front.

    Args:
        load: the model. The front reads its configuration and tokenizer, too.
        log_form: of the lines of the process: ``text`` or ``json``.
        log_level: of this package's records.
        program: the module whose ``main`` the process runs.

    Raises:
        ChatTTSError: the model cannot be loaded; the message names the cause.
    """

    def start() -> ModelProcess:
        return ModelProcess(Start(load, secrets.token_hex(4), log_form, log_level), program)

    pool = ProcessPool()
    supervisor = Supervisor(start, pool)
    try:
        facts = supervisor.begin()
        # The process says by itself that it runs, which the pool watches for all streams.
        patience = Patience(silence=None)
        yield ReplicatedModel(
            pool, facts, load.folder(), patience=patience, at_close=supervisor.close
        )
    finally:
        supervisor.close()
