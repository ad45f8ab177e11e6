"""Generation of the frames of a stream, also between reads: a run without a thread, or a thread.

A run is advanced by the thread of the decode worker whenever the engine has news of it. So a
hundred streams need no hundred threads.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NoReturn

from ..model.generation import (
    Answers,
    Cancellation,
    Delta,
    Gain,
    GenerationRequest,
    PushingGenerator,
)
from ..model.merge_deltas import merge_deltas
from ..utils.process_hooks import register_thread_owner, start_thread
from .assembly import WaveformAssembler
from .decode.worker import SOON, DecodeRun, RunState
from .routines import Routine, Tell
from .utterance import UtteranceUpdate


class StreamGeneration(ABC):
    """Generates the frames of one call.

    Args:
        assembler: takes the frames.
        cancelled: ends the generation.
    """

    def __init__(self, assembler: WaveformAssembler, cancelled: Cancellation) -> None:
        self.assembler = assembler
        self._cancelled = cancelled
        self._has_begun = False

    @property
    def has_begun(self) -> bool:
        """Return whether the generation was begun."""
        return self._has_begun

    @abstractmethod
    def begin(self) -> None:
        """Begin, unless that is done. After an error or Ctrl-C the caller may try again.

        Raises:
            OutOfThreadsError: the system gives no thread.
        """

    def leave(self) -> None:
        """End the generation within a step, since its samples are not needed any more.

        It takes no lock, so the garbage collector may call it in any thread.
        """
        self._cancelled.set()
        self.assembler.leave()

    def close(self) -> None:
        """End the generation, and free its memory."""
        self.leave()
        self.assembler.close()


class GenerationRun(StreamGeneration, DecodeRun):
    """A generation whose engine pushes what its requests gain.

    Args:
        speak: makes the routine that generates the frames.
        engine: answers the requests of the whole call.
    """

    def __init__(
        self,
        speak: Callable[[Tell[UtteranceUpdate]], Routine[None]],
        engine: PushingGenerator,
        assembler: WaveformAssembler,
        cancelled: Cancellation,
    ) -> None:
        super().__init__(assembler, cancelled)
        self._speak, self._engine = speak, engine
        self._routine: Routine[None] | None = None
        self._answers: Answers | None = None
        # What the present requests gained, put in by the engine's thread.
        self._gains: deque[Gain] = deque()

    def begin(self) -> None:
        """Ask for the first answers, and have the decode worker advance the routine from then on.

        Raises:
            OutOfThreadsError: the system gives no thread.
            ChatTTSError: the engine takes no requests, or not these.
        """
        if self._has_begun or self.assembler.is_over:
            return
        if self._answers is not None:  # something ended an earlier try
            self._answers.abandon()
        self._routine = self._speak(self.assembler.add)
        self._ask(next(self._routine, ()))
        self.assembler.worker.begin(self)
        # Until now the worker leaves the routine alone.
        self._has_begun = True
        self.assembler.worker.look_at(self)

    @property
    def is_patient(self) -> bool:
        """Return whether its listener has sound for a while: see :class:`DecodeRun`."""
        return self.assembler.lead > SOON

    def advance(self) -> RunState:
        """Give the routine what its requests gained: see :meth:`DecodeRun.advance`."""
        if not self._has_begun and not self.assembler.is_over:
            return RunState.HELD
        try:
            while self._gains and not self.assembler.is_over:
                if self.assembler.is_far_ahead and not self._cancelled.is_set():
                    return RunState.HELD
                assert self._routine is not None
                self._ask(self._routine.send(_joined(self._gains)))
            if not self.assembler.is_over:
                return RunState.WAITS
        except StopIteration:
            pass
        except BaseException as error:  # the consumer raises it
            self.assembler.fail(error)
        self._end()
        return RunState.OVER

    def _end(self) -> None:
        """End what still runs, and free it: the run itself may live as long as its stream."""
        routine, answers = self._routine, self._answers
        self._routine = self._answers = None
        self._gains = deque()
        if answers is not None:
            answers.abandon()
        if routine is not None:
            try:
                routine.close()
            except BaseException as error:  # what it leaves, such as a bar, may raise
                self.assembler.fail(error)

    def _ask(self, requests: Sequence[GenerationRequest]) -> None:
        """Have requests answered, if there are any."""
        if requests:
            # Whatever earlier requests may still gain goes into their own queue.
            gains: deque[Gain] = deque()
            self._gains = gains
            receive = partial(self._receive, gains)
            self._answers = self._engine.answers(requests, self._cancelled, receive)
            if self._cancelled.is_set():  # a long text may have hundreds of batches left
                self._receive(gains, self._answers.cancelled)
            else:
                self._answers.begin()

    def _receive(self, gains: deque[Gain], gain: Gain) -> None:
        gains.append(gain)
        self.assembler.worker.look_at(self)


def _joined(gains: deque[Gain]) -> list[Delta]:
    """Take all gains, and return what each request gained, as one delta.

    An error of one stays there, behind what came before it.
    """
    deltas: dict[int, list[Delta]] = {}
    while gains:
        gain = gains.popleft()
        try:
            for delta in gain():
                deltas.setdefault(delta.index, []).append(delta)
        except BaseException as error:
            if not deltas:
                raise
            gains.appendleft(partial(_fail, error))
            break
    return [merge_deltas(each) for each in deltas.values()]


def _fail(error: BaseException) -> NoReturn:
    raise error


class GenerationThread(StreamGeneration):
    """A generation with a thread of its own: its engine, or the call itself, computes there.

    Args:
        updates: generates the frames; iterated in that thread.
    """

    def __init__(
        self,
        updates: Iterator[UtteranceUpdate],
        assembler: WaveformAssembler,
        cancelled: Cancellation,
    ) -> None:
        super().__init__(assembler, cancelled)
        self._updates = [updates]  # popped by the one thread that iterates it
        self._threads: list[threading.Thread] = []
        register_thread_owner(self)

    def begin(self) -> None:
        """Start the thread, unless it has begun.

        Raises:
            OutOfThreadsError: the system gives no thread.
        """
        if self._has_begun:
            return
        # Where Ctrl-C comes before the flag is set, a second thread starts and finds nothing to do.
        thread = threading.Thread(target=self._run, name="speech", daemon=True)
        self._threads.append(thread)
        start_thread(thread)
        self._has_begun = True

    def close(self) -> None:
        """End the generation, and wait for its thread."""
        super().close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    at_exit = close  # at the interpreter's end

    def after_fork(self) -> None:
        """Forget the thread in a forked child; the assembler raises the error there."""
        self._has_begun, self._threads = True, []

    def _run(self) -> None:
        try:
            updates = self._updates.pop()
        except IndexError:
            return
        try:
            for update in updates:
                if not self.assembler.push(update):
                    break
        except BaseException as error:  # the consumer raises it
            self.assembler.fail(error)
