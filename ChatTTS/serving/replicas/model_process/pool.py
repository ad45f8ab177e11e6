"""A ``ReplicaPool`` of one replica at a time: the model's process, or the one that follows it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import cast

from ....audio.samples import Samples
from ....utils.locks import new_lock
from ...requests.jobs import RefineJob, SpeechJob
from ..messages import Failed, Message
from ..pool import ReplicaLostError
from .connection import Connection
from .process import ModelProcess
from .wire import Answer, Recording, Sent

_POLL_SECONDS = 0.1  # of calls that may be interrupted
_WAIT_SECONDS = 120.0  # of calls that are no streams, for a process that is ready


class ProcessPool:
    """A :class:`..pool.ReplicaPool` whose calls wait while there is no process.

    Streams belong to one asyncio loop, that of the first one. Other calls come from threads, and
    not before the first stream.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process: ModelProcess | None = None
        # What follows belongs to the loop.
        self._connection: Connection | None = None
        self._connected: asyncio.Event

    @property
    def unrecorded(self) -> int:
        """Return what the process said last: see :class:`..pool.ReplicaPool`."""
        connection = self._connection
        return 0 if connection is None else connection.unrecorded

    def use(self, process: ModelProcess) -> None:
        """Send all further calls to a process, which is ready; any thread may call it."""
        with self._lock:
            self._process, loop = process, self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                asyncio.run_coroutine_threadsafe(self._connect(process), loop)

    async def speak(self, job: SpeechJob) -> AsyncGenerator[Message, None]:
        """Yield the messages of a job: see :class:`..pool.ReplicaPool`."""
        connection = await self._open_connection()
        async with aclosing(connection.call(job)) as messages:
            async for message in messages:
                yield cast(Message, message)

    def avoid(self, replica: str) -> None:
        """End a process that cannot speak: see :class:`..pool.ReplicaPool`."""
        connection = self._connection
        if connection is not None and connection.name == replica:
            connection.lose("its engine has stopped")

    def living(self) -> frozenset[str]:
        """Return the name of the process, if it is ready: see :class:`..pool.ReplicaPool`."""
        connection = self._connection
        if connection is None or not connection.is_open:
            return frozenset()
        return frozenset([connection.name])

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str | Failed:
        """Return the refined utterances: see :class:`..pool.ReplicaPool`."""
        return self._ask(job, interrupt)

    def encode_sample(self, samples: Samples, sample_rate: int) -> str | Failed:
        """Return the sample prompt string of a recording: see :class:`..pool.ReplicaPool`."""
        return self._ask(Recording(samples, sample_rate), threading.Event())

    def _ask(self, message: Sent, interrupt: threading.Event) -> str | Failed:
        """Return the one answer to a message, or nothing after ``interrupt``; blocks a thread."""
        if self._loop is None:
            raise ReplicaLostError("the model's process has no stream yet")
        asked = asyncio.run_coroutine_threadsafe(self._answer(message), self._loop)
        while True:
            try:
                return asked.result(_POLL_SECONDS)
            except (TimeoutError, concurrent.futures.TimeoutError):
                if interrupt.is_set():
                    asked.cancel()
                    return ""

    async def _answer(self, message: Sent) -> str | Failed:
        try:
            connection = await asyncio.wait_for(self._open_connection(), _WAIT_SECONDS)
        except asyncio.TimeoutError:
            raise ReplicaLostError("the model's process does not come back") from None
        async with aclosing(connection.call(message)) as answers:
            async for answer in answers:
                if isinstance(answer, Answer):
                    return answer.text
                if isinstance(answer, Failed):
                    return answer
        raise ReplicaLostError("the model's process gave no answer")

    async def _open_connection(self) -> Connection:
        """Return the connection to the process; wait while there is none."""
        with self._lock:
            is_first = self._loop is None
            if is_first:
                self._loop, self._connected = asyncio.get_running_loop(), asyncio.Event()
            process = self._process
        if is_first and process is not None:
            await self._connect(process)
        while self._connection is None:
            await self._connected.wait()
        return self._connection

    async def _connect(self, process: ModelProcess) -> None:
        """Connect to a process; one that has ended meanwhile is started again."""

        def lost() -> None:
            process.kill()
            if self._connection is connection:
                self._connection = None
                self._connected.clear()

        loop = asyncio.get_running_loop()
        connection = Connection(process.name, lost)
        try:
            await loop.create_connection(lambda: connection, sock=process.end.dup())
        except OSError:
            return
        if connection.is_open:
            self._connection = connection
            self._connected.set()
