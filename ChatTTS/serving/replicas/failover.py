"""A stream that goes on with another replica when its own one is gone.

The sound is a function of the job and of the fingerprint. So another replica generates it again
from the beginning, and the part that the listener has is skipped. That part is compared, too: a
replica that computes other samples ends the stream with an error, and never continues it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from ...pipeline.results import Piece
from ..errors import UnavailableError
from ..requests.jobs import SpeechJob
from ..requests.replay import DeliveredSpeech, Replay, other_sound
from .messages import Alive, Ended, Failed, Fingerprint, Message, Opened, ReplicaState
from .pool import ReplicaLostError, ReplicaPool

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CLOSE_SECONDS = 10.0
# Pieces that wait for the listener here. More would only wait in another place.
_AHEAD = 4


@dataclass(frozen=True)
class Patience:
    """Limits of going on with other replicas.

    Attributes:
        seconds: from the loss of a replica to the first message of another one.
        pause: before each further attempt, in seconds.
        silence: a replica that has accepted the job and says nothing for so many seconds is lost;
            ``None`` for a pool that notices this by itself.
        most_lost: replicas that may be lost without a new sample between; a job that crashes
            replicas ends then.
    """

    seconds: float = 120.0
    pause: float = 0.05
    silence: float | None = 15.0
    most_lost: int = 5


class FailoverStream:
    """The pieces of a job, byte for byte those of one undisturbed replica.

    Borders of pieces depend on timing, as in any stream. The joined pieces do not.

    Args:
        job: with its seed; every replica gets it unchanged.
        pool: sends it to a replica.
        patience: limits of going on.
        on_state: called with the state of a replica whenever it sends one.

    Attributes:
        utterances: of the text, once the stream is open.
        left_out: what the voice cannot speak of it, likewise.
        finish_reason: ``stop``, ``length`` or ``abort``; ``None`` while it goes on.
        lost: number of replicas that were lost so far.
    """

    def __init__(
        self,
        job: SpeechJob,
        pool: ReplicaPool,
        patience: Patience,
        on_state: Callable[[ReplicaState], None],
    ) -> None:
        self.utterances: tuple[str, ...] = ()
        self.left_out: tuple[str, ...] = ()
        self.finish_reason: str | None = None
        self.lost = 0
        self._job, self._pool, self._patience = job, pool, patience
        self._on_state = on_state
        self._replica: str | None = None
        self._messages: AsyncGenerator[Message, None] | None = None
        self._fingerprint: Fingerprint | None = None
        self._delivered = DeliveredSpeech()
        self._replay = Replay(self._delivered)
        self._lost_in_a_row = 0
        self._loop = asyncio.get_running_loop()
        self._left = self._loop.create_future()
        self._is_over = False
        # One task for the stream receives, so that no message needs one of its own.
        self._receiving: asyncio.Task[None] | None = None
        self._inbox: deque[Piece | Ended | Exception] = deque()
        self._listener: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Send the job to a replica, and wait until it is accepted.

        Raises:
            ChatTTSError: the job cannot be spoken.
            UnavailableError: there is no replica that takes it.
        """
        await self._unless_left(self._begin())

    def __aiter__(self) -> FailoverStream:
        return self

    async def __anext__(self) -> Piece:
        if not self._is_over:
            got = await self._taken()
            if isinstance(got, Piece):
                return got
            self._is_over = True
            await self._stop()
            if isinstance(got, Exception):
                raise got
            self.finish_reason = "abort" if got is None else got.finish_reason
        raise StopAsyncIteration

    def leave(self) -> None:
        """End the stream without waiting; any thread may call it."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._set_left)

    def close(self) -> None:
        """End the stream and the job; called in a thread beside the loop."""
        self.leave()
        with contextlib.suppress(RuntimeError, TimeoutError):
            closing = asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
            closing.result(_CLOSE_SECONDS)

    # -- from the replicas to the listener ---------------------------------------------------

    async def _taken(self) -> Piece | Ended | Exception | None:
        """Wait for what comes next; ``None`` once the stream is left."""
        if self._receiving is None:
            self._receiving = self._loop.create_task(self._receive_all())
        while not self._inbox and not self._left.done():
            self._listener = self._loop.create_future()
            try:
                await self._listener
            finally:
                self._listener = None
        if self._left.done():
            return None
        _wake(self._room)
        return self._inbox.popleft()

    async def _receive_all(self) -> None:
        """Receive until the end, the error that ends the stream, or its listener leaves.

        ``wait_for`` of Python before 3.12 may lose a cancellation, so each turn looks.
        """
        got: Piece | Ended | Exception | None = None
        while not self._left.done() and (got is None or isinstance(got, Piece)):
            try:
                got = await self._new()
            except Exception as error:
                got = error
            if got is not None:
                self._inbox.append(got)
                _wake(self._listener)
            while len(self._inbox) >= _AHEAD and not self._left.done():
                self._room = self._loop.create_future()
                await self._room

    async def _new(self) -> Piece | Ended | None:
        """Receive a message; return what is new of it, if anything is."""
        message = await self._next()
        if isinstance(message, Ended):
            self._replay.check_complete()
            return message
        piece = self._replay.fresh(message)
        if piece is not None:
            self._delivered.add(piece)
            self._lost_in_a_row = 0
        return piece

    # -- one replica after another -----------------------------------------------------------

    async def _next(self) -> Piece | Ended:
        """Return the next message of this replica, or of the next one."""
        while True:
            try:
                message = await self._receive_in_time()
            except ReplicaLostError as lost:
                self._count(lost)
                await self._begin()
            else:
                if not isinstance(message, Alive):
                    assert isinstance(message, Piece | Ended)
                    return message

    async def _receive_in_time(self) -> Message:
        """Return a message; a replica that hangs is lost, and avoided."""
        if self._left.done():
            raise asyncio.CancelledError
        seconds = self._patience.silence
        if seconds is None:
            return await self._receive()
        try:
            return await asyncio.wait_for(self._receive(), seconds)
        except asyncio.TimeoutError:
            if self._replica is not None:
                self._pool.avoid(self._replica)
            raise ReplicaLostError(f"it sent nothing for {seconds:g} s") from None

    async def _begin(self) -> None:
        """Open the job on a replica; try again until one accepts it."""
        until = self._loop.time() + self._patience.seconds
        while True:
            await self._close()
            try:
                return await asyncio.wait_for(self._try(), until - self._loop.time())
            except asyncio.TimeoutError:
                logger.error("no replica accepted a request within %g s", self._patience.seconds)
                raise UnavailableError(
                    "no replica of the speech engine accepted this request in time: send it again"
                ) from None
            except ReplicaLostError as lost:
                self._count(lost)
                await asyncio.sleep(self._patience.pause)

    async def _try(self) -> None:
        self._messages = self._pool.speak(self._job)
        opened = await self._receive()
        while isinstance(opened, Alive):
            opened = await self._receive()
        assert isinstance(opened, Opened)
        known = self._fingerprint
        if known is not None and self._delivered.samples and known != opened.fingerprint:
            logger.error(
                "a stream cannot go on, as the replicas differ: %s",
                "; ".join(known.differences(opened.fingerprint)),
            )
            raise other_sound()
        self._fingerprint = opened.fingerprint
        self.utterances, self.left_out = opened.utterances, opened.left_out
        self._replay = Replay(self._delivered)

    async def _receive(self) -> Message:
        """Return a message of the present replica; raise what it says of a failure."""
        assert self._messages is not None
        try:
            message = await self._messages.__anext__()
        except StopAsyncIteration:
            raise ReplicaLostError("a replica ended a stream before its end") from None
        if isinstance(message, Failed):
            if message.is_of_replica:
                # It refuses at once, so it is the least busy one, and would get every further try.
                if message.replica is not None:
                    self._replica = message.replica
                    self._pool.avoid(message.replica)
                raise ReplicaLostError(message.message)
            raise message.error()
        if isinstance(message, Opened | Ended):
            self._replica = message.state.replica
            self._on_state(message.state)
        return message

    def _count(self, lost: ReplicaLostError) -> None:
        """Count a loss; raise if there were too many."""
        self.lost += 1
        self._replica = None
        self._lost_in_a_row += 1
        logger.warning(
            "a replica was lost after %d samples of a stream: %s", self._delivered.samples, lost
        )
        if self._lost_in_a_row > self._patience.most_lost:
            raise UnavailableError(
                f"{self._lost_in_a_row} replicas were lost while speaking this text: try another "
                "text"
            ) from lost

    # -- leaving -----------------------------------------------------------------------------

    async def _unless_left(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of ``work``; cancel it and return ``None`` once the stream is left."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._left}, return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() and not self._left.done() else None
        finally:
            if not task.done():
                task.cancel()
                await _ended(task)

    def _set_left(self) -> None:
        if not self._left.done():
            self._left.set_result(None)
            _wake(self._listener)

    async def aclose(self) -> None:
        """End the stream and the job."""
        await self._stop()

    async def _stop(self) -> None:
        """End the job, and receive nothing more."""
        self._set_left()
        if self._receiving is not None and not self._receiving.done():
            self._receiving.cancel()
            await _ended(self._receiving)
        await self._close()

    async def _close(self) -> None:
        """End the job on the present replica."""
        messages, self._messages = self._messages, None
        if messages is not None:
            with contextlib.suppress(ReplicaLostError):
                await messages.aclose()


def _wake(waiter: asyncio.Future[None] | None) -> None:
    """Let a task go on that waits, if one does."""
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


async def _ended(task: asyncio.Future[Any]) -> None:
    """Wait until a cancelled task has ended, since its messages cannot be closed before.

    A client that leaves cancels the waiting task again and again.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
