"""A request that is being spoken."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..pipeline.results import Piece
from ..pipeline.streams import SpeechStream
from .measures import Record
from .requests import SpeechRequest
from .tickets import Ticket

if TYPE_CHECKING:
    from .service import SpeechService

COMPLETE = ("stop", "length")
"""How a request ends that was spoken."""
BROKEN_OFF = "the server ended this request before its end: send it again"


class Speech(AsyncIterator[Piece]):
    """The pieces of one request: ``async with service.speak(request) as speech``.

    Entering waits for the request's turn. Leaving, also early, frees all that it held within a
    step of the engine.

    Attributes:
        request: what is spoken.
        samples: given so far.
        finish_reason: ``stop``, ``length`` or ``abort``; ``None`` before the end.
    """

    def __init__(
        self, service: SpeechService, request: SpeechRequest, voice: Mapping[str, str]
    ) -> None:
        self.request = request
        self.samples = 0
        self.finish_reason: str | None = None
        self._service, self._voice = service, dict(voice)
        self._record = Record(request)
        self._ticket: Ticket | None = None
        self._stream: SpeechStream | None = None
        self._interrupt = threading.Event()
        self._known: list[Piece] | None = None  # from the cache, last piece first
        self._given: list[Piece] = []

    async def __aenter__(self) -> Speech:
        service, request = self._service, self.request
        # While the server ends, the admission refuses whatever is new.
        is_looked_up = self._is_cachable and not service.admission.draining
        known = service.results.get(self._key) if is_looked_up else None
        if known is not None:
            self._known = list(reversed(known))
            self._record.is_cached = True
            service.begun(self)
            return self
        ticket = service.admission.enter(
            client=request.client,
            priority=request.priority,
            cost=len(request.text),
            deadline=service.deadline(request),
            continues=request.continues,
        )
        await ticket.__aenter__()
        self._ticket = ticket
        self._record.begun()
        service.begun(self)
        try:
            self._stream = await service.begin(request, self._voice, self._interrupt)
        except Exception as error:
            told = service.heard(error)
            await self.__aexit__(type(told), told, None)
            raise told from error
        except BaseException as error:  # cancelled
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __anext__(self) -> Piece:
        if self._known is not None:
            if not self._known:
                raise StopAsyncIteration
            piece = self._known.pop()
        else:
            assert self._stream is not None, "enter it first"
            try:
                piece = await self._stream.__anext__()
            except StopAsyncIteration:
                # An utterance that was ended before its first sample gave no piece to say so.
                self._finish(self._stream.finish_reason or "abort")
                self._keep()
                raise
            except Exception as error:
                raise self._service.heard(error) from error
            if self._is_cachable:
                self._given.append(piece)
        self._record.heard(len(piece.samples))
        self.samples += len(piece.samples)
        if piece.finish_reason is not None:
            self._finish(piece.finish_reason)
        return piece

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()
        if error is not None:
            self._record.failed(error)
        try:
            if self._stream is not None:
                # Shielded: whoever is cancelled a second time must not leave the thread behind.
                await asyncio.shield(self._service.in_thread(self._stream.close))
        finally:
            if self._ticket is not None:
                await self._ticket.__aexit__(kind, error, trace)
            self._service.ended(self, self._record.ended())

    def abort(self) -> None:
        """End the work within a step; nothing waits."""
        self._interrupt.set()
        if self._known:
            self._known.clear()

    @property
    def utterances(self) -> int:
        """How many the text was cut into; known once it is entered."""
        if self._stream is not None:
            return len(self._stream.utterances)
        return 1 + max((piece.utterance for piece in self._known or ()), default=-1)

    @property
    def record(self) -> Record:
        """Its times, up to now."""
        return self._record

    def _keep(self) -> None:
        """Keep what was given, for identical requests."""
        if self._is_cachable and self._given and self.finish_reason == "stop":
            self._service.results.put(self._key, tuple(self._given))

    def _finish(self, reason: str) -> None:
        """An utterance ended, or all of them; the worst end is the whole's."""
        order = ("stop", "length", "abort")
        reason = max(reason, self.finish_reason or reason, key=order.index)
        self._record.finish = self.finish_reason = reason

    @property
    def _is_cachable(self) -> bool:
        return self.request.is_seeded and self._service.settings.result_cache_bytes > 0

    @property
    def _key(self) -> tuple[Any, ...]:
        """All that the samples depend on."""
        r = self.request
        settings = (r.seed, r.temperature, r.top_p, r.top_k, r.language, r.refine, r.low_latency)
        return (r.text, tuple(sorted(self._voice.items())), r.first_utterance, *settings)
