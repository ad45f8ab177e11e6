"""Speech while it is generated: the results of ``infer(stream=True)`` and ``stream``."""

from __future__ import annotations

import asyncio
import weakref
from abc import abstractmethod
from collections.abc import AsyncIterator, Generator, Iterator
from types import GeneratorType, TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..params import InferCodeParams
from ..text.lexicon import LexiconUse
from .results import EmptySpeechError, Piece, SpokenUtterance
from .stream_generation import StreamGeneration

T = TypeVar("T")
S = TypeVar("S", bound="Stream[Any]")


class Stream(Iterator[T], AsyncIterator[T]):
    """Speech that can be read by ``for`` or ``async for`` while it is generated.

    The work begins with the first item, and goes on between reads, up to a minute ahead.
    Closing the stream (also by ``with`` or ``async with``), or dropping its last reference, ends
    the work within a step and frees its memory. One thread or task at a time may take items.

    Attributes:
        rows: for each text its utterances, as far as they are known.
    """

    def __init__(self, generation: StreamGeneration, *, ensure_non_empty: bool) -> None:
        self.rows = generation.assembler.texts
        self._generation = generation
        self._ensures = ensure_non_empty
        self._is_over = False
        weakref.finalize(self, generation.leave).atexit = False

    @abstractmethod
    def _take(self) -> T | None:
        """Return the next item if it is there; called with the assembler's lock held."""

    def __next__(self) -> T:
        item = None
        if not self._is_over:
            self._generation.begin()
            item = self._checked(self._generation.assembler.wait(self._take))
        if item is None:
            raise StopIteration
        return item

    async def __anext__(self) -> T:
        item = None
        if not self._is_over:
            self._generation.begin()
            item = self._checked(await self._generation.assembler.wait_async(self._take))
        if item is None:
            raise StopAsyncIteration
        return item

    def _checked(self, item: T | None) -> T | None:
        """Return ``item``; at the end, raise if an utterance stayed empty."""
        if item is None:
            self._is_over = True
            empty = self._generation.assembler.empty_texts
            if empty and self._ensures:
                raise EmptySpeechError(empty, None)
        return item

    @property
    def finish_reasons(self) -> list[str | None]:
        """The ending of each text: ``stop``, ``length`` or ``abort``; ``None`` while it goes on."""
        return [row.finish_reason for row in self.rows]

    def close(self) -> None:
        """End the work; items that were not taken are dropped."""
        self._is_over = True
        self._generation.close()

    async def aclose(self) -> None:
        """End the work as :meth:`close` does, without blocking the asyncio loop."""
        self._is_over = True
        await asyncio.get_running_loop().run_in_executor(None, self._generation.close)

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self: S) -> S:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class WaveformStream(Stream[NDArray[np.float32]], Generator[NDArray[np.float32], None, None]):
    """Chunks, float32 [texts, n] at 24 kHz; a text that is finished is silent.

    It is a generator, as in the published package, since programs ask ``inspect.isgenerator``
    whether they got a stream. An object of Python's own class of generators has no attributes, so
    this one has the methods of that class, and names it as its own.

    Where the caller changed ``stream_speed``, every chunk but the last has that many samples. Where
    the caller changed ``pass_first_n_batches``, the first chunk waits for that number of batches of
    frames.
    """

    def __init__(
        self, generation: StreamGeneration, params: InferCodeParams, samples_per_frame: int
    ) -> None:
        super().__init__(generation, ensure_non_empty=params.ensure_non_empty)
        changed = params.stream_speed != InferCodeParams.stream_speed
        self._size = params.stream_speed if changed else None
        self._min_samples = self._size or 1
        if params.pass_first_n_batches != InferCodeParams.pass_first_n_batches:
            frames = params.pass_first_n_batches * params.stream_batch
            self._min_samples = max(self._min_samples, frames * samples_per_frame)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Python's class of generators, for ``isinstance``; ``type`` tells the truth."""
        return GeneratorType

    def send(self, value: None) -> NDArray[np.float32]:
        """Return the next chunk, as ``next`` does; there is nothing that a stream could be sent.

        Raises:
            StopIteration: at the end.
            TypeError: a value for a stream that has not begun, as generators raise it.
        """
        if value is not None and not self._generation.has_begun:
            raise TypeError("can't send non-None value to a just-started generator")
        return next(self)

    def throw(
        self,
        typ: type[BaseException] | BaseException,
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> NDArray[np.float32]:
        """End the work, and raise what is given, as a generator does that catches nothing."""
        self.close()
        if isinstance(typ, BaseException):
            raise typ.with_traceback(tb or typ.__traceback__)
        if isinstance(val, BaseException):
            raise val.with_traceback(tb)
        raise (typ() if val is None else typ(val)).with_traceback(tb)

    def _take(self) -> NDArray[np.float32] | None:
        chunk = self._generation.assembler.take(self._min_samples, self._size)
        if chunk is not None:
            self._min_samples = self._size or 1
        return chunk


class SpeechStream(Stream[Piece]):
    """The pieces of one text's speech; each piece belongs to one utterance."""

    def __init__(self, generation: StreamGeneration, params: InferCodeParams) -> None:
        super().__init__(generation, ensure_non_empty=params.ensure_non_empty)
        self._position = 0

    @property
    def utterances(self) -> list[SpokenUtterance]:
        """The utterances of the text, as far as they are known."""
        return self.rows[0].utterances

    @property
    def finish_reason(self) -> str | None:
        """The ending of the text: ``stop``, ``length`` or ``abort``; ``None`` while it goes on."""
        return self.rows[0].finish_reason

    @property
    def lexicon_uses(self) -> tuple[LexiconUse, ...]:
        """The places of the text where a lexicon replaced words."""
        return self.rows[0].lexicon_uses

    @property
    def left_out(self) -> tuple[str, ...]:
        """The letters of the text that the voice cannot speak, and words that are too long."""
        return self.rows[0].left_out

    def _take(self) -> Piece | None:
        piece = self._generation.assembler.piece(self._position)
        if piece is not None:
            self._position += len(piece.samples)
        return piece
