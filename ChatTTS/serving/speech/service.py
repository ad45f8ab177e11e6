"""The one service behind all interfaces: it queues requests and speaks them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ...audio.samples import Samples, digest_of
from ...errors import ChatTTSError, EngineDeadError
from ...longform.segments import before_tempo, with_silence
from ...text.lexicon import LexiconUse
from ...text.pauses import paused_parts
from ...utils.lru import LRU
from ..errors import (
    OverloadedError,
    RequestTooLargeError,
    ServingError,
    UnavailableError,
    as_serving_error,
)
from ..observe.loop_budget import LoopBudget
from ..observe.metrics import ServerMetrics
from ..observe.request_logs import log_request
from ..queue.admission import Admission, AdmissionLimits
from ..queue.tickets import Ticket
from ..requests.jobs import PieceStream, RefineJob, SpeechJob
from ..requests.request import SpeechRequest
from ..requests.segments import SegmentStream, jobs_of
from ..settings import Settings
from . import reading, warm_up
from .request_checks import RequestChecks
from .speech import ResultCache, Speech
from .speech_model import SpeechModel
from .voices import FoundVoice, Voices

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Threads that close streams and read small files; both are short.
_WORKERS = 16
_BUDGETS = 1000  # of clients that sent text last
# One thread reads long texts: several would hold Python's lock in turn, and the loop wait for all.
_PARSERS = 1
# Threads that decode recordings. The admission does not limit how many recordings come.
_READERS = 2
_MIN_WAIT_SECONDS = 0.05  # so that a request with max_wait=0 can take a free place
_POLL_SECONDS = 0.05  # while the server shuts down
_ABORT_SECONDS = 2.0  # for clients of aborted requests to be told
ENGINE_STOPPED = "the engine stopped with an error, and the server ends: ask again when it is back"


class SpeechService(RequestChecks):
    """Speaks requests on one model, several at a time. Belongs to one asyncio loop.

    Args:
        model: speaks; closed at the end.
        voices: finds voices by their names.
        settings: limits and caches.
        metrics: counts every request.

    Raises:
        ConfigError: a word of the server's lexicon has phonemes alone, and the voice reads letters.

    Attributes:
        state: ``starting``, ``ready``, ``draining`` or ``failed``.
        failed: set once the engine has stopped with an error; the service cannot speak any more.
    """

    def __init__(
        self,
        model: SpeechModel,
        voices: Voices,
        settings: Settings,
        metrics: ServerMetrics,
    ) -> None:
        super().__init__(model, voices, settings)
        self.metrics, limits = metrics, settings.limits
        self.admission = Admission(
            AdmissionLimits(
                max_running=limits.running,
                max_waiting=limits.waiting,
                max_waiting_per_client=limits.waiting_per_client,
                max_wait_seconds=limits.wait_seconds,
                ageing_seconds=limits.ageing_seconds,
                max_running_per_client=settings.running_per_client,
            )
        )
        self.results: ResultCache = LRU(settings.result_cache_bytes, lambda speech: speech.nbytes)
        self.prompts: LRU[bytes, str] = LRU(limits.prompts)
        self._budgets: LRU[str, LoopBudget] = LRU(_BUDGETS)
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="serving")
        # Long work has threads of its own, so that streams of other requests do not wait for it.
        self._refiners = ThreadPoolExecutor(limits.running, thread_name_prefix="refining")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="recordings")
        self._parsers = ThreadPoolExecutor(_PARSERS, thread_name_prefix="parsing")
        self.failed = asyncio.Event()
        self.state = "starting"
        self._speaking: set[Speech] = set()
        self._holds = 0
        self._is_closed = False

    # -- state -----------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Return whether clients should send requests here."""
        return self.state == "ready"

    @property
    def ends(self) -> bool:
        """Return whether new requests are refused for good."""
        return self.state == "failed" or self._is_closed or self.admission.draining

    async def warm_up(self) -> None:
        """Speak once, so that no client waits for one-time initialisation."""
        async with self.speak(warm_up.REQUEST) as speech:
            async for _ in speech:
                pass
        self.state = "ready"

    def start_draining(self) -> None:
        """Report that clients should not send requests any more, but still accept them."""
        if self.state == "ready":
            self.state = "draining"

    async def close(self, grace: float) -> int:
        """Refuse new requests, let the present ones finish, and unload the model.

        Args:
            grace: seconds after which the requests that are left are aborted.

        Returns:
            How many were aborted.
        """
        if self.state != "failed":
            self.state = "draining"
        self.admission.drain()
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._finished(), grace)
        finally:  # also when a second signal cancels the wait
            aborted = self.admission.running + self.admission.waiting
            self._is_closed = True
            self.admission.abort_waiting("the server shuts down")
            for speech in list(self._speaking):
                speech.abort()
            self.model.interrupt()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._finished(), _ABORT_SECONDS)
        await self.in_thread(self.model.close)
        return aborted

    def shut_down_threads(self) -> None:
        """End the worker threads; call it when no interface needs them any more."""
        for threads in (self._workers, self._refiners, self._readers, self._parsers):
            threads.shutdown(wait=False)

    async def _finished(self) -> None:
        """Wait until no request runs or waits, and no interface holds the service."""
        admission = self.admission
        while self._speaking or self._holds or admission.running or admission.waiting:
            await asyncio.sleep(_POLL_SECONDS)

    @property
    def may_resume(self) -> bool:
        """Return whether a request that was preempted can go on with the same sound."""
        return self.model.is_exact

    # -- requests --------------------------------------------------------------------------

    def speak(self, request: SpeechRequest) -> Speech:
        """Return the speech of ``request``: enter it, and iterate over its pieces.

        The server's lexicon is added to that of the request. This call itself raises nothing;
        :class:`.speech.Speech` lists the errors of entering and of iterating.
        """
        return Speech(self, self.with_lexicon(request))

    async def refine(self, request: SpeechRequest, prompt: str | None = None) -> list[str]:
        """Return the utterances of a request's text after the refine pass.

        Args:
            prompt: control tags of the refine pass, such as ``[oral_2][laugh_0][break_6]``.

        Raises:
            ServingError: the text cannot be refined, or not now; as for :meth:`speak`.
        """
        request = self.with_lexicon(request)
        self._check_state()
        self.check_text(request)
        self.check_language(request.language)
        await self.find_lexicon_uses(request)
        interrupt = threading.Event()
        settings = request.sampling
        if prompt is not None:
            settings["prompt"] = prompt
        job = RefineJob(request.text, settings, request.language, request.lexicon)

        def refined() -> str:
            return self.model.refine(job, interrupt)

        async with self.take_ticket(request):
            try:
                return (await _run_in(self._refiners, refined)).split("\n")
            except ChatTTSError as error:
                raise self.client_error(error) from error
            finally:
                interrupt.set()

    async def encode_sample(self, samples: Samples, sample_rate: int) -> str:
        """Return the sample prompt string of a recording.

        The last results are kept, since clients send one recording with many requests.

        Args:
            samples: float32 (n,).
            sample_rate: in Hz.

        Raises:
            ServingError: the recording is too short, too long or silent.
        """

        def encoded() -> str:
            return self.prompts.get_or_make(
                digest_of(samples, sample_rate),
                lambda: self.model.encode_sample(samples, sample_rate),
            )

        try:
            return await self.in_reader_thread(encoded)
        except ChatTTSError as error:
            raise as_serving_error(error) from error

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Make :meth:`close` wait within this context: more requests of one text will come."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    def loop_budget(self, client: str) -> LoopBudget:
        """Return the share of the event loop's time for the texts of a client."""
        return self._budgets.get_or_make(client, LoopBudget)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, called in a worker thread; for short work."""
        return await _run_in(self._workers, work)

    async def in_parsing_thread(self, work: Callable[[], T]) -> T:
        """Return the result of ``work`` on a long text of a client, which holds Python's lock."""
        return await _run_in(self._parsers, work)

    async def in_reader_thread(self, work: Callable[[], T]) -> T:
        """Return the result of ``work`` on a recording, which takes long."""
        return await _run_in(self._readers, work)

    # -- what Speech uses ------------------------------------------------------------------

    async def with_segments(self, request: SpeechRequest) -> SpeechRequest:
        """Return the request with the parts of its SSML, and the language of its voice.

        Raises:
            BadRequestError: it begins as SSML and cannot be read.
            RequestTooLargeError: it is too long.
        """
        return await reading.with_voice_language(self, await reading.with_segments(self, request))

    def check(self, request: SpeechRequest) -> FoundVoice:
        """Return the request's voice.

        Raises:
            ServingError: the engine is gone; or see :meth:`.request_checks.RequestChecks.check`.
        """
        self._check_state()
        return super().check(request)

    def _check_state(self) -> None:
        if self.state == "failed":
            raise UnavailableError(ENGINE_STOPPED)
        if self._is_closed:
            raise OverloadedError("the server has shut down: use another one", draining=True)

    async def find_lexicon_uses(self, request: SpeechRequest) -> tuple[LexiconUse, ...]:
        """Return where the lexicon replaces words of the text.

        Raises:
            RequestTooLargeError: the text is too long with its sayings.
        """
        if not request.lexicon.entries:
            return ()
        by_paragraphs = request.paragraph_pause is not None and not request.segments
        parts = await self.in_parsing_thread(
            lambda: paused_parts(request.text, request.lexicon, by_paragraphs=by_paragraphs)
        )
        limit = self.settings.limits.characters
        length = sum(len(part.text) for part in parts)
        if length > limit:
            raise RequestTooLargeError(
                f"with its lexicon applied, the text has {length} characters; the limit is "
                f"{limit}: send it in parts",
                param="lexicon",
            )
        return tuple(use for part in parts for use in part.uses)

    def take_ticket(self, request: SpeechRequest, *, resumes: bool = False) -> Ticket:
        """Put a request into the queue.

        Args:
            resumes: whether it had its turn before, and was preempted.

        Raises:
            OverloadedError, DeadlineError: see :meth:`..queue.admission.Admission.enter`.
        """
        deadline = None
        if request.max_wait is not None and not resumes:
            deadline = self.admission.clock() + max(request.max_wait, _MIN_WAIT_SECONDS)
        return self.admission.enter(
            client=request.client,
            priority=request.priority,
            cost=len(request.text),
            deadline=deadline,
            continues=request.continues or resumes,
            resumes=resumes,
        )

    async def open_stream(
        self, request: SpeechRequest, voice: dict[str, str], interrupt: threading.Event
    ) -> PieceStream:
        """Start to generate the speech of a request that has its turn; ``interrupt`` ends it."""
        job = SpeechJob(voice=voice, **request.job_fields)
        if not request.segments:
            return await self.model.open_stream(job, interrupt)

        def found(name: str | None) -> Mapping[str, str]:
            if name is None:
                return job.voice
            return self.voice_of(name, request.adapter, request.voice_language).parameters

        segments = before_tempo(request.segments, request.speed)
        silences = job.silence_before, job.silence_after, job.paragraph_pause
        segments = with_silence(segments, *silences)
        stream = SegmentStream(self.model, jobs_of(segments, job, found), segments, interrupt)
        await stream.open()
        return stream

    def speech_started(self, speech: Speech) -> None:
        """Note that a request runs, so that :meth:`close` waits for it."""
        self._speaking.add(speech)

    def speech_ended(self, speech: Speech) -> None:
        """Note that a request does not run any more; count it, and log it."""
        self._speaking.discard(speech)
        self.metrics.count_request(speech.record)
        if speech.request.interface:
            log_request(speech.record, with_text=self.settings.log_texts)

    def client_error(self, error: Exception) -> ServingError:
        """Return what a client is told of ``error``; if the engine is dead, the service fails."""
        if isinstance(error, EngineDeadError) and not (self._is_closed or self.failed.is_set()):
            logger.error("the engine stopped: %s", error)
            self.state = "failed"
            self.failed.set()
            self.admission.abort_waiting(ENGINE_STOPPED)
        return as_serving_error(error)


async def _run_in(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)
