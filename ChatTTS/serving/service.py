"""The one service behind all interfaces: a request waits for its turn, and is spoken."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from ..audio.samples import Samples
from ..core import Chat
from ..errors import ChatTTSError, EngineDeadError, NothingToSpeakError
from ..pipeline.results import Piece
from ..pipeline.streams import SpeechStream
from ..utils.lru import LRU
from .admission import Admission, AdmissionLimits
from .errors import (
    OverloadedError,
    RequestTooLargeError,
    ServingError,
    UnavailableError,
    as_serving_error,
)
from .measures import Measures, Record
from .requests import SpeechRequest
from .settings import Settings
from .speech import Speech
from .voices import Voices

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Texts are prepared and streams are closed here; neither computes for long.
_WORKERS = 16
# Recordings are read here, whose number no admission bounds.
_READERS = 2
_SOONEST = 0.05  # seconds in which a request that may not wait enters
_POLL_SECONDS = 0.05  # while the server ends
_DROPPING_SECONDS = 2.0  # in which those that are dropped are told, if they listen
_WARM_UP = "Hello there."
GONE = "the engine stopped with an error, and the server ends: ask again when it is back"


@dataclass(frozen=True)
class Status:
    """What the service does at this moment.

    Attributes:
        state: ``starting``, ``ready``, ``draining`` or ``failed``.
        running, waiting, limit: requests, and how many of them may run.
    """

    state: str
    running: int
    waiting: int
    limit: int


class SpeechService:
    """Speaks requests on one ``Chat``, as many side by side as it may. For one asyncio loop.

    Args:
        chat: loaded, with the velocity engine.
        voices: the names of voices.
        settings: limits and caches.
        measures: told of every request.

    Attributes:
        failed: set once the engine is gone, and with it all that the service can do.
    """

    def __init__(self, chat: Chat, voices: Voices, settings: Settings, measures: Measures) -> None:
        self.chat, self.voices, self.settings, self.measures = chat, voices, settings, measures
        limits = settings.limits
        self.admission = Admission(
            AdmissionLimits(
                max_running=limits.running,
                max_waiting=limits.waiting,
                max_waiting_per_client=limits.waiting_per_client,
                max_wait_seconds=limits.wait_seconds,
                ageing_seconds=limits.ageing_seconds,
            )
        )
        self.results: LRU[tuple[Any, ...], tuple[Piece, ...]] = LRU(
            settings.result_cache_bytes, lambda pieces: sum(p.samples.nbytes for p in pieces)
        )
        self.prompts: LRU[bytes, str] = LRU(settings.limits.prompts)
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="serving")
        # What takes long has threads of its own: the sound of others must not wait for it.
        self._refiners = ThreadPoolExecutor(limits.running, thread_name_prefix="refining")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="recordings")
        self.failed = asyncio.Event()
        self._state = "starting"
        self._speaking: set[Speech] = set()
        self._holds = 0
        self._is_closed = False

    # -- state -----------------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """What it does now."""
        admission = self.admission
        limit = self.settings.limits.running
        return Status(self._state, admission.running, admission.waiting, limit)

    @property
    def is_ready(self) -> bool:
        """Whether requests are welcome."""
        return self._state == "ready"

    async def warm_up(self) -> None:
        """Speak once, so that the first caller does not wait for what happens but once."""
        async with self.speak(SpeechRequest(_WARM_UP, seed=0)) as speech:
            async for _ in speech:
                pass
        self._state = "ready"

    def leave(self) -> None:
        """Say that requests are not welcome any more, and take them all the same."""
        if self._state == "ready":
            self._state = "draining"

    async def close(self, grace: float) -> int:
        """Take no more requests, let those that are here finish, and let go of the model.

        Args:
            grace: seconds after which the others are dropped.

        Returns:
            How many were dropped.
        """
        if self._state != "failed":
            self._state = "draining"
        self.admission.drain()
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._finished(), grace)
        finally:  # also where a second signal ends the waiting
            dropped = self.admission.running + self.admission.waiting
            self._is_closed = True
            self.admission.abort_waiting("the server shuts down")
            for speech in list(self._speaking):
                speech.abort()
            self.chat.interrupt()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._finished(), _DROPPING_SECONDS)
        await self.in_thread(self.chat.unload)
        return dropped

    def end(self) -> None:
        """Let go of the threads, when no interface is left that needs them."""
        for threads in (self._workers, self._refiners, self._readers):
            threads.shutdown(wait=False)

    async def _finished(self) -> None:
        """Until nobody speaks, waits, or has more to say."""
        admission = self.admission
        while self._speaking or self._holds or admission.running or admission.waiting:
            await asyncio.sleep(_POLL_SECONDS)

    # -- requests --------------------------------------------------------------------------

    def speak(self, request: SpeechRequest) -> Speech:
        """What speaks ``request``: enter it, and iterate over its pieces.

        Raises:
            ServingError: the request cannot be taken: too long, an unknown voice, or the engine
                is gone. Entering tells of overload; so does iterating of all the rest.
        """
        self._check(request.text)
        if request.sample is not None:
            voice = {"spk_smp": request.sample}
            if request.transcript:
                voice["txt_smp"] = request.transcript
        else:
            try:
                voice = self.voices.parameters(request.voice)
            except ChatTTSError as error:
                raise as_serving_error(error) from error
        return Speech(self, request, voice)

    async def refine(self, request: SpeechRequest, prompt: str | None = None) -> list[str]:
        """The utterances of a request's text after the refine pass.

        Args:
            prompt: its control tags, such as ``[oral_2][laugh_0][break_6]``.

        Raises:
            ServingError: as :meth:`speak`.
        """
        self._check(request.text)
        interrupt = threading.Event()
        settings = drawing(request) | {"manual_seed": request.seed}
        if prompt is not None:
            settings["prompt"] = prompt

        def refined() -> str:
            text: str = self.chat.infer(
                request.text,
                lang=request.language,
                refine_text_only=True,
                params_refine_text=settings,
                interrupt=interrupt,
            )
            if not text:
                raise NothingToSpeakError(request.text)
            return text

        async with self.admission.enter(
            client=request.client,
            priority=request.priority,
            cost=len(request.text),
            deadline=self.deadline(request),
        ):
            try:
                return (await _in(self._refiners, refined)).split("\n")
            except ChatTTSError as error:
                raise self.heard(error) from error
            finally:
                interrupt.set()

    async def encode_sample(self, samples: Samples, sample_rate: int) -> str:
        """A recording to a sample prompt string; clients send the same one again and again.

        Args:
            samples: float32 (n,).

        Raises:
            ServingError: it is too short, too long or silent.
        """

        def encoded() -> str:
            key = hashlib.sha256(samples.tobytes() + str(sample_rate).encode()).digest()
            return self.prompts.get_or_make(
                key, lambda: self.chat.sample_audio_speaker(samples, sample_rate)
            )

        try:
            return await self.read(encoded)
        except ChatTTSError as error:
            raise as_serving_error(error) from error

    def _check(self, text: str) -> None:
        if self._state == "failed":
            raise UnavailableError(GONE)
        if self._is_closed:
            raise OverloadedError("the server has shut down: ask another one", draining=True)
        most = self.settings.limits.characters
        if len(text) > most:
            raise RequestTooLargeError(
                f"the text has {len(text)} characters; this server takes {most}: send it in parts",
                param="input",
            )

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """While this lasts :meth:`close` waits: more requests of the same text are to come."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    # -- for Speech ------------------------------------------------------------------------

    async def in_thread(self, work: Callable[[], T]) -> T:
        """The result of ``work``, done in a thread of the service."""
        return await _in(self._workers, work)

    async def read(self, work: Callable[[], T]) -> T:
        """The same for work on a recording, which takes long."""
        return await _in(self._readers, work)

    def deadline(self, request: SpeechRequest) -> float | None:
        """When a request that comes now must have begun, by the admission's clock."""
        if request.max_wait is None:
            return None
        return self.admission.clock() + max(request.max_wait, _SOONEST)

    async def begin(
        self, request: SpeechRequest, voice: dict[str, str], interrupt: threading.Event
    ) -> SpeechStream:
        """The stream of a request whose turn it is; ``interrupt`` ends it."""
        coding = drawing(request) | voice | {"manual_seed": request.seed}
        refining = {"manual_seed": request.seed}
        return await self.in_thread(
            lambda: self.chat.stream(
                request.text,
                low_latency=request.low_latency,
                lang=request.language,
                skip_refine_text=not request.refine,
                params_refine_text=refining,
                params_infer_code=coding,
                first_utterance=request.first_utterance,
                interrupt=interrupt,
            )
        )

    def begun(self, speech: Speech) -> None:
        """A request runs."""
        self._speaking.add(speech)

    def ended(self, speech: Speech, record: Record) -> None:
        """A request does not run any more."""
        self._speaking.discard(speech)
        self.measures.note(record)

    def heard(self, error: Exception) -> ServingError:
        """What a caller is told of ``error``; where the engine is gone, so is the service."""
        if isinstance(error, EngineDeadError) and not (self._is_closed or self.failed.is_set()):
            logger.error("the engine stopped: %s", error)
            self._state = "failed"
            self.failed.set()
            self.admission.abort_waiting(GONE)
        return as_serving_error(error)


async def _in(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def drawing(request: SpeechRequest) -> dict[str, Any]:
    """The fields of the request parameters that concern draws, as far as they are named."""
    named = {
        "temperature": request.temperature,
        "top_P": request.top_p,
        "top_K": request.top_k,
    }
    return {name: value for name, value in named.items() if value is not None}
