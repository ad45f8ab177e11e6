"""One request while it is spoken: its turn in the queue, its pieces of audio, its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import numpy as np

from ...audio.samples import SAMPLE_RATE
from ...errors import NothingToSpeakError
from ...pipeline.results import Fault, Piece
from ...text.lexicon import LexiconUse
from ...utils.lru import LRU
from ..errors import ServingError, UnavailableError
from ..observe.metrics import RequestRecord
from ..queue.admission import Admission
from ..queue.tickets import Ticket
from ..requests.jobs import PieceStream
from ..requests.replay import DeliveredSpeech, Replay
from ..requests.request import SpeechRequest
from ..settings import Settings
from .voices import FoundVoice

T = TypeVar("T")


@dataclass(frozen=True)
class CachedSpeech:
    """The pieces of a finished request, what the voice could not speak, and its utterances."""

    pieces: tuple[Piece, ...]
    left_out: tuple[str, ...]
    utterances: int

    @property
    def nbytes(self) -> int:
        """The size of the samples."""
        return sum(piece.samples.nbytes for piece in self.pieces)


ResultCache = LRU[tuple[Any, ...], CachedSpeech]
"""Finished requests, by everything that their speech depends on."""

# The sound of a text with nothing to speak: players and encoders need some samples.
_SILENT_SECONDS = 0.2
_SHOWN_PARTS = 60  # in a header; each takes at most some hundred bytes
# From the best end of a request to the worst.
_FINISH_REASONS = ("stop", "length", "abort")


class SpeechBackend(Protocol):
    """The parts of its service that a ``Speech`` uses.

    Attributes:
        settings: of the server.
        admission: the queue.
        results: pieces of finished requests.
        may_resume: whether a request that was preempted can go on with the same sound.
    """

    settings: Settings
    admission: Admission
    results: ResultCache

    @property
    def may_resume(self) -> bool: ...

    async def with_segments(self, request: SpeechRequest) -> SpeechRequest:
        """Return the request with the segments of its SSML, and the language of its voice.

        It raises ServingError if the document has errors.
        """

    def check(self, request: SpeechRequest) -> FoundVoice:
        """Return the request's voice; raise ServingError on a bad request."""

    def take_ticket(self, request: SpeechRequest, *, resumes: bool = False) -> Ticket:
        """Put the request into the queue; it ``resumes`` where it was preempted."""

    async def find_lexicon_uses(self, request: SpeechRequest) -> tuple[LexiconUse, ...]:
        """Return where the lexicon replaces words; raise RequestTooLargeError as ``check``."""

    async def open_stream(
        self, request: SpeechRequest, voice: dict[str, str], interrupt: threading.Event
    ) -> PieceStream:
        """Start to generate; ``interrupt`` ends it."""

    def speech_started(self, speech: Speech) -> None:
        """Called when the request has its turn."""

    def speech_ended(self, speech: Speech) -> None:
        """Called when the request is over, after :meth:`speech_started`."""

    def client_error(self, error: Exception) -> ServingError:
        """Return the error that the client is told."""

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, called in a worker thread."""


class Speech(AsyncIterator[Piece]):
    """The pieces of one request: ``async with service.speak(request) as speech``.

    Creating it does nothing and raises nothing. Entering checks the request and waits for its
    turn. Iterating gives the pieces. While they are not taken and other requests wait, its slot is
    theirs; its sound is generated once more from there on. Leaving, early too, frees everything
    within one step of the engine.

    Args:
        backend: the service.
        request: the text to speak.

    Attributes:
        request: as above; once entered, with the text and the segments of its SSML.
        record: times and counts, up to now.
        finish_reason: ``stop``, ``length`` or ``abort``; ``None`` before the end.
        faults: those that the guard found in the pieces up to now.
        is_silent: whether the text has nothing to speak, and the only piece is a silence; known
            with the first piece.
        lexicon_uses: where a lexicon replaced words of the text.
        voice_name: of the voice that speaks, as :class:`.voices.FoundVoice` has it; known once the
            speech is entered.

    Raises:
        ServingError: when entered: the request cannot be spoken (too long, an unknown voice), or
            not now (too many requests wait, its deadline passes, the engine is gone); and when
            iterated: the engine fails. Nothing is held after an error on entering.
    """

    def __init__(self, backend: SpeechBackend, request: SpeechRequest) -> None:
        self.request = request
        self.record = RequestRecord(request)
        self.finish_reason: str | None = None
        self.faults: list[Fault] = []
        self.is_silent = False
        self.lexicon_uses: tuple[LexiconUse, ...] = ()
        self.voice_name = ""
        self._backend = backend
        self._voice: dict[str, str] = {}
        self._ticket: Ticket | None = None
        self._stream: PieceStream | None = None
        self._interrupt = threading.Event()
        self._is_aborted = False
        self._delivered = DeliveredSpeech()
        self._replay: Replay | None = None
        self._closing: asyncio.Future[None] | None = None  # of the stream that was preempted
        self._cached: list[Piece] | None = None  # from the result cache, last piece first
        self._left_out: tuple[str, ...] = ()  # likewise, or of a silence
        self._utterances = 0  # from the result cache
        self._to_cache: list[Piece] = []

    async def __aenter__(self) -> Speech:
        backend = self._backend
        request = self.request = self.record.request = await backend.with_segments(self.request)
        voice = backend.check(request)
        self._voice, self.voice_name = voice.parameters, voice.name
        self.record.adapter = self._voice.get("adapter", "")
        self.lexicon_uses = await backend.find_lexicon_uses(request)
        # While the server shuts down, the admission refuses every new request.
        may_use_cache = self._is_cacheable and not backend.admission.draining
        cached = backend.results.get(self._cache_key) if may_use_cache else None
        if cached is not None:
            self._cached, self._left_out = list(reversed(cached.pieces)), cached.left_out
            self._utterances = cached.utterances
            self.record.is_cached = True
            backend.speech_started(self)
            return self
        await self._take_slot()
        self.record.mark_started()
        backend.speech_started(self)
        try:
            self._stream = await backend.open_stream(request, self._voice, self._interrupt)
        except Exception as error:
            if self._may_replace(error):
                self._cached = [silence()]
                return self
            answer = backend.client_error(error)
            await self.__aexit__(type(answer), answer, None)
            raise answer from error
        except BaseException as error:  # cancelled
            await self.__aexit__(type(error), error, None)
            raise
        return self

    async def __anext__(self) -> Piece:
        if self._cached is not None:
            if not self._cached:
                raise StopAsyncIteration
            piece = self._cached.pop()
        else:
            assert self._stream is not None, "enter it first"
            try:
                piece = await self._next_piece()
            except StopAsyncIteration:
                # An utterance that is aborted before its first sample gives no piece, and so no
                # finish reason.
                self._finish(self._stream.finish_reason or "abort")
                self._cache_result()
                raise
            except Exception as error:
                if self.record.samples or not self._may_replace(error):
                    raise self._backend.client_error(error) from error
                self._cached, piece = [], silence()
            if piece.words and not self.request.word_times:
                piece = replace(piece, words=())  # a guard finds them, too
            if self._is_cacheable:
                self._to_cache.append(piece)
        self.record.add_samples(len(piece.samples))
        self.record.add_guarded(piece)
        self.faults += piece.faults
        if piece.finish_reason is not None:
            self._finish(piece.finish_reason)
        if self._ticket is not None:
            self._ticket.mark_taken(False)
        return piece

    async def _take_slot(self, *, resumes: bool = False) -> None:
        """Wait for a turn."""
        ticket = self._backend.take_ticket(self.request, resumes=resumes)
        await ticket.__aenter__()
        self._ticket = ticket
        if self._backend.may_resume:
            ticket.allow_preemption(self._preempt)

    def _preempt(self) -> None:
        """End the generation, and leave the slot to others, until the next piece is wanted."""
        assert self._stream is not None
        assert self._ticket is not None
        self._interrupt.set()
        close = self._backend.in_thread(self._stream.close)
        self._closing = asyncio.ensure_future(close)
        self._ticket.release()

    async def _next_piece(self) -> Piece:
        """Return the next piece of the engine that the listener has not had."""
        assert self._ticket is not None
        self._ticket.mark_taken(True)
        if self._closing is not None:
            await self._closing
            self._closing = None
            await self._take_slot(resumes=True)
            if self._is_aborted:
                raise StopAsyncIteration
            self._interrupt = threading.Event()
            self._stream = await self._backend.open_stream(
                self.request, self._voice, self._interrupt
            )
            self._replay = Replay(self._delivered)
        assert self._stream is not None
        while True:
            piece: Piece | None = await self._stream.__anext__()
            assert piece is not None
            if self._replay is not None:
                piece = self._replay.fresh(piece)
            if piece is not None:
                self._delivered.add(piece)
                return piece

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()
        if error is not None:
            self.record.mark_failed(error)
        try:
            if self._stream is not None:
                # Shielded, so that a second cancellation does not leave the thread behind.
                await asyncio.shield(self._backend.in_thread(self._stream.close))
        finally:
            if self._ticket is not None:
                await self._ticket.__aexit__(kind, error, trace)
            self.record.mark_ended()
            self._backend.speech_ended(self)

    def abort(self) -> None:
        """End the generation within one step, without waiting for that."""
        self._is_aborted = True
        self._interrupt.set()
        if self._cached:
            self._cached.clear()

    def check_complete(self) -> None:
        """Raise UnavailableError unless the request was spoken to its end."""
        if self.finish_reason not in ("stop", "length"):
            raise UnavailableError(
                "the server stopped before this request was finished: send it again"
            )

    def is_generated(self, piece: Piece) -> bool:
        """Return whether all is there to be taken after this piece, which was given last."""
        if self._cached is not None:
            return True
        assert self._stream is not None
        is_end = piece.finish_reason is not None and not self.request.segments
        return is_end and piece.utterance + 1 == len(self._stream.utterances)

    @property
    def was_counted(self) -> bool:
        """Return whether it is over and had its turn; without a turn, it is a refusal."""
        return self.record.latency is not None

    @property
    def next_utterance(self) -> int:
        """The number of the first utterance of a text that continues this one."""
        return self.request.first_utterance + (0 if self.is_silent else self.utterances)

    @property
    def utterances(self) -> int:
        """The number of utterances of the text; known once the speech is entered.

        Of SSML, those of the segments that were begun; all of them at the end.
        """
        return self._utterances if self._stream is None else len(self._stream.utterances)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The parts of the text that the voice cannot speak; known once the speech is entered.

        Of SSML, that of the segments that were begun; all of it at the end.
        """
        return self._left_out if self._stream is None else self._stream.left_out

    @property
    def shown_voice(self) -> str:
        """The name of the voice for a header, percent-encoded but for the signs of blends."""
        return quote(self.voice_name, safe=" ,:=+()'")

    @property
    def shown_left_out(self) -> str:
        """The first parts of :attr:`left_out` for a header: percent-encoded, with commas."""
        return ",".join(quote(part, safe="") for part in self.left_out[:_SHOWN_PARTS])

    def _may_replace(self, error: Exception) -> bool:
        """Return whether a silence is spoken in place of this error, and note that.

        A text with letters that the voice does not know is refused: its client wants words. A key
        or an encoded image alone is not.
        """
        if not (self.request.may_be_silent and isinstance(error, NothingToSpeakError)):
            return False
        self.is_silent = not any(len(part) == 1 for part in error.left_out)
        self._left_out = error.left_out
        return self.is_silent

    def _cache_result(self) -> None:
        """Keep the pieces for identical requests."""
        if self._is_cacheable and self._to_cache and self.finish_reason == "stop":
            spoken = CachedSpeech(tuple(self._to_cache), self.left_out, self.utterances)
            self._backend.results.put(self._cache_key, spoken)

    def _finish(self, reason: str) -> None:
        """Note how an utterance, or the whole request, ended; the worst end is kept."""
        reason = max(reason, self.finish_reason or reason, key=_FINISH_REASONS.index)
        self.record.finish = self.finish_reason = reason

    @property
    def _is_cacheable(self) -> bool:
        request, size = self.request, self._backend.settings.result_cache_bytes
        # The voices of segments may change under their names.
        return request.is_seeded and not request.segments and size > 0

    @property
    def _cache_key(self) -> tuple[Any, ...]:
        """Everything that the samples, words and faults of the pieces depend on."""
        return (*sorted(self._voice.items()), *self.request.deciding.values())


def silence() -> Piece:
    """Return the sound of a text with nothing to speak: one piece of 0.2 s."""
    return Piece(np.zeros(round(_SILENT_SECONDS * SAMPLE_RATE), np.float32), 0, 0, "", "stop")
