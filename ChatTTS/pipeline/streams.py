"""Speech while it is generated: what ``infer(stream=True)`` and ``stream`` give."""

from __future__ import annotations

import asyncio
import threading
import weakref
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..model.generation import Cancellation
from ..params import InferCodeParams
from ..utils.process_hooks import start, watch
from .assembly import RowMixer
from .frame_generation import Gain
from .results import EmptySpeechError, Piece, Spoken

T = TypeVar("T")
S = TypeVar("S", bound="Stream")


class Production:
    """Generates in a thread of its own, so that work goes on while nobody asks for samples.

    Args:
        gains: what is generated; taken in that thread.
        mixer: where the frames go.
        cancelled: ends the generation.
    """

    def __init__(self, gains: Iterator[Gain], mixer: RowMixer, cancelled: Cancellation) -> None:
        self.mixer = mixer
        self._cancelled = cancelled
        self._has_begun = False
        self._work = [gains]  # taken by the one thread that does it
        self._threads: list[threading.Thread] = []
        watch(self)

    def begin(self) -> None:
        """Begin, if that has not been done.

        Raises:
            OutOfThreadsError: the system gives no thread. It may be tried again.
        """
        if self._has_begun:
            return
        # Where Ctrl-C comes before the flag is set, another thread starts that finds no work.
        thread = threading.Thread(target=self._run, name="speech", daemon=True)
        self._threads.append(thread)
        start(thread)
        self._has_begun = True

    def leave(self) -> None:
        """Nobody takes samples any more: the generation ends within a step.

        It takes no lock, so that the garbage collector may call it in whatever thread.
        """
        self._cancelled.set()
        self.mixer.leave()

    def close(self) -> None:
        """As :meth:`leave`, and wait for it."""
        self.leave()
        self.mixer.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def at_exit(self) -> None:
        """At the interpreter's end: as :meth:`close`."""
        self.close()

    def after_fork(self) -> None:
        """In a forked child: the thread stayed in the parent, and the mixer says so."""
        self._has_begun, self._threads = True, []

    def _run(self) -> None:
        try:
            gains = self._work.pop()
        except IndexError:
            return
        try:
            for gain in gains:
                if not self.mixer.push(gain):
                    break
        except BaseException as error:  # it is told to whoever takes the samples
            self.mixer.fail(error)


class Stream(Iterator[T], AsyncIterator[T]):
    """What comes of a production, by ``for`` or by ``async for``.

    The work begins when the first item is asked for, and goes on in threads of its own, up to a
    minute ahead. Closing the stream (also by ``with`` and ``async with``), or letting go of it,
    ends the work within a step and frees what it held. One at a time may take items.

    Attributes:
        rows: for each text its utterances, as they are known so far.
    """

    def __init__(self, production: Production, *, ensure_non_empty: bool) -> None:
        self.rows = production.mixer.rows
        self._production = production
        self._ensures = ensure_non_empty
        self._is_over = False
        weakref.finalize(self, production.leave).atexit = False

    @abstractmethod
    def _take(self) -> T | None:
        """The next item if it is there; called with the mixer's lock held."""

    def __next__(self) -> T:
        item = None
        if not self._is_over:
            self._production.begin()
            item = self._checked(self._production.mixer.wait(self._take))
        if item is None:
            raise StopIteration
        return item

    async def __anext__(self) -> T:
        item = None
        if not self._is_over:
            self._production.begin()
            item = self._checked(await self._production.mixer.wait_async(self._take))
        if item is None:
            raise StopAsyncIteration
        return item

    def _checked(self, item: T | None) -> T | None:
        """The same; at the end an error if something was to be spoken and was not."""
        if item is None:
            self._is_over = True
            empty = self._production.mixer.empty_texts
            if empty and self._ensures:
                raise EmptySpeechError(empty, None)
        return item

    @property
    def finish_reasons(self) -> list[str | None]:
        """How each row ended: ``stop``, ``length`` or ``abort``; ``None`` for one that goes on."""
        return [row.finish_reason for row in self.rows]

    def close(self) -> None:
        """End the work; items that were not taken are dropped."""
        self._is_over = True
        self._production.close()

    async def aclose(self) -> None:
        """The same in an asyncio loop."""
        self._is_over = True
        await asyncio.get_running_loop().run_in_executor(None, self._production.close)

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class WaveformStream(Stream[NDArray[np.float32]]):
    """Chunks (rows, n), float32 at 24 kHz; a row that is finished is silent.

    Where the caller changed ``stream_speed`` every chunk but the last has that many samples; where
    he changed ``pass_first_n_batches`` the first waits for so many batches of frames.
    """

    def __init__(
        self, production: Production, params: InferCodeParams, samples_per_frame: int
    ) -> None:
        super().__init__(production, ensure_non_empty=params.ensure_non_empty)
        usual = InferCodeParams()
        changed = params.stream_speed != usual.stream_speed
        self._size = params.stream_speed if changed else None
        self._least = self._size or 1
        if params.pass_first_n_batches != usual.pass_first_n_batches:
            frames = params.pass_first_n_batches * params.stream_batch
            self._least = max(self._least, frames * samples_per_frame)

    def _take(self) -> NDArray[np.float32] | None:
        chunk = self._production.mixer.take(self._least, self._size)
        if chunk is not None:
            self._least = self._size or 1
        return chunk


class SpeechStream(Stream[Piece]):
    """The pieces of one text's speech; each belongs to one utterance."""

    def __init__(self, production: Production, params: InferCodeParams) -> None:
        super().__init__(production, ensure_non_empty=params.ensure_non_empty)
        self._position = 0

    @property
    def utterances(self) -> list[Spoken]:
        """Of the text, as they are known so far."""
        return self.rows[0].utterances

    @property
    def finish_reason(self) -> str | None:
        """How the text ended: ``stop``, ``length`` or ``abort``; ``None`` while it goes on."""
        return self.rows[0].finish_reason

    def _take(self) -> Piece | None:
        piece = self._production.mixer.piece(self._position)
        if piece is not None:
            self._position += len(piece.samples)
        return piece
