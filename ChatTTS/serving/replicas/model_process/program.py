"""The program of the model's process: loads a model, and answers calls until its socket closes."""

from __future__ import annotations

import asyncio
import logging
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from typing import Any

from ....errors import ChatTTSError
from ....pipeline.results import Piece
from ....utils.garbage import leave_out_objects, share_free_memory
from ...observe.logging_setup import log_to_stderr
from ...observe.loop_lag import quick_turns
from ...requests.jobs import RefineJob, SpeechJob
from ..messages import Alive, Failed
from ..worker import Replica, fingerprint_of
from .plain_data import WireError
from .wire import (
    AHEAD_SAMPLES,
    BEAT_SECONDS,
    CONNECTION,
    Answer,
    Decoder,
    Leave,
    Recording,
    Sent,
    Start,
    Taken,
    encode,
    receive,
)

logger = logging.getLogger(__name__)

_END_SECONDS = 5.0  # for the streams to end, once the front is gone
_THREADS = 8  # for calls that block
_WRITE_BYTES = 1 << 18  # of a write, but for a frame that is longer


def main() -> None:
    """Load the model that the front names, and answer its calls; the status is that of the end."""
    # A terminal sends Ctrl-C, and a service manager SIGTERM, to both processes. The front ends
    # this one when its streams have ended.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    share_free_memory()
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    has_calls = threading.Event()
    watch = threading.Thread(target=_end_with_front, args=[end, has_calls], daemon=True)
    watch.start()
    start = receive(end)
    if not isinstance(start, Start):
        sys.exit("the model's process was started without a model")
    with log_to_stderr(start.log_form, start.log_level), quick_turns():
        status = _work(end, start, has_calls)
    sys.stderr.flush()
    os._exit(status)  # the streams have ended, and nothing waits for their threads


def _work(end: socket.socket, start: Start, has_calls: threading.Event) -> int:
    try:
        chat = start.load.load()
        replica = Replica(chat, fingerprint_of(chat, start.load.folder()), start.name)
        replica.check_health()  # loads what the first client would wait for
        ready = encode(CONNECTION, replica.facts())
    except ChatTTSError as error:
        return _failed(end, Failed.of(error))
    except Exception as error:  # the front tells it, and this log has where
        logger.exception("the model cannot be loaded")
        told = f"the model cannot be loaded: {type(error).__name__}: {error}"
        return _failed(end, Failed("EngineUnavailableError", told))
    leave_out_objects()
    has_calls.set()
    asyncio.run(answer(end, replica, ready))
    return 0


def _failed(end: socket.socket, failed: Failed) -> int:
    with suppress(OSError):  # the front is gone
        end.sendall(encode(CONNECTION, failed))
    return 1


def _end_with_front(end: socket.socket, has_calls: threading.Event) -> None:
    """End this process once the front has closed its end, whatever it does then."""
    poll = select.poll()
    poll.register(end, 0)  # which leaves that the other end is closed
    poll.poll()
    if has_calls.is_set():
        threading.Event().wait(_END_SECONDS)  # the loop ends them
    os._exit(1)


async def answer(end: socket.socket, replica: Replica, ready: bytes = b"") -> None:
    """Answer the calls that come through a socket until it closes.

    Args:
        end: of a pair of sockets; closed at the end.
        replica: does the work.
        ready: is sent first.
    """
    loop = asyncio.get_running_loop()
    answers = Answers(replica)
    await loop.create_connection(lambda: answers, sock=end)
    answers.write(ready)
    answers.beat()
    await answers.closed
    await answers.end_calls()


class Answers(asyncio.Protocol):
    """The connection to the front, in the loop of the model's process.

    What is sent in one turn of the loop, by any number of streams, leaves in few writes at its end.
    What the front is slow to read waits here, since the transport copies all that waits in it
    again and again.

    Args:
        replica: does the work.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica, self._loop = replica, asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="calls")
        self._decoder, self._calls = Decoder(), dict[int, asyncio.Task[None]]()
        self._rooms: dict[int, _Room] = {}
        self._parts: deque[bytes] = deque()
        self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Begin and end calls; bytes that are no messages end the connection."""
        try:
            for call, message in self._decoder.feed(data):
                self._take(call, message)
        except WireError:
            logger.exception("the front sent what is no message")
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Note the end."""
        if not self.closed.done():
            self.closed.set_result(None)

    def beat(self) -> None:
        """Say that this process runs, now and every second."""
        if not self.closed.done():
            self.write(encode(CONNECTION, Alive(self._replica.unrecorded)))
            self._loop.call_later(BEAT_SECONDS, self.beat)

    def write(self, frame: bytes) -> None:
        """Send a frame at the end of this turn of the loop."""
        if not self._parts and not self._is_paused:
            self._loop.call_soon(self._flush)
        self._parts.append(frame)

    def pause_writing(self) -> None:
        """Keep further frames here: the transport has enough."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Send the frames that waited."""
        self._is_paused = False
        self._flush()

    async def end_calls(self) -> None:
        """End all calls."""
        for task in self._calls.values():
            task.cancel()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)
        self._threads.shutdown(wait=False)

    def _flush(self) -> None:
        if self._transport.is_closing():
            self._parts.clear()
        while self._parts and not self._is_paused:
            frames, size = [], 0
            while self._parts and size < _WRITE_BYTES:
                frames.append(self._parts.popleft())
                size += len(frames[-1])
            self._transport.write(b"".join(frames))

    def _take(self, call: int, message: Sent) -> None:
        if isinstance(message, SpeechJob):
            self._begin(call, self._speak(call, message))
        elif isinstance(message, RefineJob):
            self._begin(call, self._refine(call, message))
        elif isinstance(message, Recording):
            given = message.samples, message.sample_rate
            self._begin(call, self._answer(call, self._replica.encode_sample, *given))
        elif isinstance(message, Taken):
            if room := self._rooms.get(call):
                room.give(message.count)
        elif isinstance(message, Leave):
            if task := self._calls.get(call):
                task.cancel()
        else:
            raise WireError(f"a {type(message).__name__} is no call")

    def _begin(self, call: int, work: Coroutine[Any, Any, None]) -> None:
        if call in self._calls:
            work.close()
            raise WireError(f"there is a call {call} already")
        self._calls[call] = task = self._loop.create_task(work)
        task.add_done_callback(lambda done: self._end(call, done))

    def _end(self, call: int, task: asyncio.Task[None]) -> None:
        """Forget a call; one that failed without an error of the job is a fault of this program."""
        del self._calls[call]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a call failed", exc_info=error)
            told = f"a call of the model's process failed: {type(error).__name__}"
            self.write(encode(call, Failed("GenerationError", told)))

    async def _speak(self, call: int, job: SpeechJob) -> None:
        room = self._rooms[call] = _Room()
        try:
            async with aclosing(self._replica.speak(job)) as messages:
                async for message in messages:
                    self.write(encode(call, message))
                    if isinstance(message, Piece):
                        await room.use(len(message.samples))
        finally:
            del self._rooms[call]

    async def _refine(self, call: int, job: RefineJob) -> None:
        interrupt = threading.Event()
        try:
            await self._answer(call, self._replica.refine, job, interrupt)
        finally:
            interrupt.set()

    async def _answer(self, call: int, work: Callable[..., str | Failed], *given: Any) -> None:
        answer = await self._loop.run_in_executor(self._threads, work, *given)
        self.write(encode(call, Answer(answer) if isinstance(answer, str) else answer))


class _Room:
    """The room for samples of a stream that its caller has not taken."""

    def __init__(self) -> None:
        self._samples = AHEAD_SAMPLES
        self._has_room = asyncio.Event()

    def give(self, samples: int) -> None:
        """Make room for ``samples`` more."""
        self._samples += samples
        if self._samples > 0:
            self._has_room.set()

    async def use(self, samples: int) -> None:
        """Use the room of ``samples``; wait until some is left."""
        self._samples -= samples
        if self._samples <= 0:
            self._has_room.clear()
            await self._has_room.wait()


if __name__ == "__main__":
    main()
