"""A model whose memory goes back to the system while there are no requests.

Most servers with a model stand idle for most of a day. The first request after that loads the model
again, from files that the system still has in its page cache.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from operator import add

from ...audio.samples import Samples
from ...errors import ChatTTSError
from ...model.velocity.metrics import Metrics
from ...pipeline.results import Piece
from ...utils.garbage import everything_watched, return_free_memory
from ...utils.locks import new_lock
from ...utils.lru import CacheCounts
from ..errors import UnavailableError
from ..observe.engine_metrics import EngineState
from ..requests.jobs import PieceStream, RefineJob, SpeechJob
from .local_model import LocalModel

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 10.0  # after a model could not be loaded


class IdleModel:
    """A ``SpeechModel`` that is loaded while requests use it, and for a while longer.

    Args:
        loaded: the model to begin with.
        load: loads it again, with the settings of before; it blocks its thread.
        seconds: after the last request, until the model is unloaded.
        clock: returns seconds.
    """

    def __init__(
        self,
        loaded: LocalModel,
        load: Callable[[], LocalModel],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load, self._seconds, self._clock = load, seconds, clock
        self._model: LocalModel | None = loaded
        self.is_exact, self.gives_attention = loaded.is_exact, loaded.gives_attention
        self.fallback, self.adapters = loaded.fallback, loaded.adapters
        self.config, self.tokenizer = loaded.config, loaded.tokenizer
        self.languages = loaded.languages
        self.has_alignment_heads = loaded.has_alignment_heads
        self._fingerprint: str | None = None
        self._speaker = loaded.chat.speaker
        self._past = Metrics()  # of the engines that were closed
        # Held while the model is loaded or unloaded, which takes a second; and for a moment, around
        # the count of those that use it.
        self._changing, self._counting = new_lock(), new_lock()
        self._users = self._failures = 0
        self._last_use = clock()
        self._is_closed = False

    @property
    def is_loaded(self) -> bool:
        """Return whether the next request finds the model in memory."""
        return self._model is not None

    @property
    def unrecorded(self) -> int:
        """Return how many launches on a GPU are not recorded yet; 0 while it is unloaded."""
        model = self._model
        return 0 if model is None else model.unrecorded

    async def watch(self) -> None:
        """Unload the model whenever it has been idle for long enough, until this is cancelled."""
        while True:
            await asyncio.sleep(self._seconds / 4)
            if self._is_idle():
                await asyncio.to_thread(self.unload_if_idle)

    def unload_if_idle(self) -> bool:
        """Unload the model unless it is in use, or was a short time ago; block the thread.

        Returns:
            Whether it was unloaded by this call.
        """
        with self._changing:
            with self._counting:
                model = self._model
                if model is None or not self._is_idle():
                    return False
                # Together, so that counts never fall.
                self._past, self._model = _sum(self._past, model.metrics()), None
            started = time.perf_counter()
            with everything_watched():
                try:
                    model.close()
                except Exception:  # the next request loads another one
                    logger.exception("the idle model could not be closed")
                del model
            return_free_memory()
        logger.info("idle: the model was unloaded (%.2f s)", time.perf_counter() - started)
        return True

    def _is_idle(self) -> bool:
        idle = self._clock() - self._last_use
        return self._model is not None and not self._users and idle >= self._seconds

    def _take(self) -> LocalModel:
        """Return the model for one use, loaded if need be; :meth:`_leave` ends the use.

        Raises:
            UnavailableError: it cannot be loaded now.
        """
        with self._counting:
            self._users += 1
            failures = self._failures
            if self._model is not None:
                return self._model
        try:
            with self._changing:  # one thread loads, and the others wait for it
                if self._model is None and self._failures > failures:
                    raise _unavailable()  # as for the thread that tried meanwhile
                if self._model is None:
                    self._model = self._loaded_again()
                return self._model
        except BaseException:
            self._leave()
            raise

    def _take_loaded(self) -> LocalModel | None:
        """Return the model for one use; ``None`` where it would have to be loaded."""
        with self._counting:
            self._users += self._model is not None
            return self._model

    async def _take_in_thread(self) -> LocalModel:
        taking = asyncio.get_running_loop().run_in_executor(None, self._take)
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:  # the client left, and the thread goes on
            taking.add_done_callback(self._leave_taken)
            raise

    def _leave_taken(self, taking: asyncio.Future[LocalModel]) -> None:
        if not taking.cancelled() and taking.exception() is None:
            self._leave()

    def _loaded_again(self) -> LocalModel:
        if self._is_closed:
            raise UnavailableError("the server shuts down: ask another one")
        started = time.perf_counter()
        try:
            model = self._load()
        except (ChatTTSError, OSError, MemoryError, RuntimeError) as error:
            logger.exception("the model, unloaded while idle, cannot be loaded again")
            self._failures += 1
            raise _unavailable() from error
        self._fingerprint = None  # the files may be others than before
        logger.info("the model was loaded again (%.2f s)", time.perf_counter() - started)
        return model

    def _leave(self) -> None:
        with self._counting:
            self._users -= 1
            self._last_use = self._clock()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[LocalModel]:
        model = self._take()
        try:
            yield model
        finally:
            self._leave()

    def fingerprint(self) -> str:
        """Return what the bits of the sound depend on: see ``SpeechModel``."""
        if self._fingerprint is None:
            with self._in_use() as model:
                self._fingerprint = model.fingerprint()
        return self._fingerprint

    async def open_stream(self, job: SpeechJob, interrupt: threading.Event) -> PieceStream:
        """Start to generate, on a model that is loaded first if need be."""
        model = self._take_loaded() or await self._take_in_thread()
        try:
            return _HeldStream(await model.open_stream(job, interrupt), self._leave)
        except BaseException:
            self._leave()
            raise

    def refine(self, job: RefineJob, interrupt: threading.Event) -> str:
        """Return the refined utterances: see ``SpeechModel``."""
        with self._in_use() as model:
            return model.refine(job, interrupt)

    def encode_sample(self, samples: Samples, sample_rate: int) -> str:
        """Return the sample prompt string of a recording: see ``SpeechModel``."""
        with self._in_use() as model:
            return model.encode_sample(samples, sample_rate)

    def check_speaker(self, speaker: str) -> None:
        """Raise VoiceError if a speaker string does not belong to the checkpoint."""
        self._speaker.vector(speaker)

    def engines(self) -> list[EngineState]:
        """Return the counts of the engines that were closed, and the present one, if any."""
        with self._counting:
            past, model = EngineState(self._past, is_live=False), self._model
            return [past] if model is None else [past, *model.engines()]

    def caches(self) -> Mapping[str, CacheCounts]:
        """Return the counts of the caches of voices; none while the model is unloaded."""
        model = self._model
        return {} if model is None else model.caches()

    def interrupt(self) -> None:
        """End all streams and calls that run now."""
        if (model := self._model) is not None:
            model.interrupt()

    def close(self) -> None:
        """Interrupt, and free the model for good."""
        self.interrupt()
        with self._changing:
            self._is_closed = True
            model, self._model = self._model, None
            if model is not None:
                model.close()


class _HeldStream:
    """A stream that tells when it is closed.

    Args:
        stream: to pass on.
        leave: called once, when the stream is closed.
    """

    def __init__(self, stream: PieceStream, leave: Callable[[], None]) -> None:
        self._stream, self._leave = stream, leave
        self._lock = new_lock()
        self._is_open = True

    @property
    def utterances(self) -> Sequence[object]:
        return self._stream.utterances

    @property
    def finish_reason(self) -> str | None:
        return self._stream.finish_reason

    @property
    def left_out(self) -> tuple[str, ...]:
        return self._stream.left_out

    async def __anext__(self) -> Piece:
        return await self._stream.__anext__()

    def close(self) -> None:
        try:
            self._stream.close()
        finally:
            with self._lock:
                was_open, self._is_open = self._is_open, False
            if was_open:
                self._leave()


def _unavailable() -> UnavailableError:
    return UnavailableError(
        "the model cannot be loaded again, and the log says why: try again later",
        retry_after=_RETRY_SECONDS,
    )


def _sum(first: Metrics, second: Metrics) -> Metrics:
    """Return the sums of all counts."""
    return Metrics(*map(add, astuple(first), astuple(second)))
