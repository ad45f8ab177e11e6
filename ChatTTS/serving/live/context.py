"""One stream of text on a socket, which is spoken by one voice."""

from __future__ import annotations

import asyncio
import time

from ...text.borders import Border, border_between
from ..errors import BadRequestError, OverloadedError, RequestTooLargeError, UnavailableError
from ..speech.config import RunConfig
from ..speech.service import ENGINE_STOPPED, SpeechService
from .document_buffer import DocumentBuffer, TextPart
from .run import QueuedUtterance, Run, RunEnd, SeedState
from .speech_queue import SpeechQueue

# Flushes that may wait for their text to be spoken; a client with more of them misbehaves.
_MAX_WAITING_ENDS = 64
# Longer texts are split in a thread, since that would block the event loop for too long.
_LONG_TEXT = 1000


class Context:
    """Collects text and has it spoken.

    Args:
        config: initial settings. A run keeps the settings that hold when its first text comes.
        speech_queue: speaks the utterances.

    Attributes:
        is_done: whether no more text comes.
        last_used: time of the last message for it, by ``time.monotonic``.
    """

    def __init__(
        self, service: SpeechService, config: RunConfig, speech_queue: SpeechQueue
    ) -> None:
        self.is_done = False
        self.last_used = time.monotonic()
        self._service, self._speech_queue = service, speech_queue
        self._budget = service.loop_budget(speech_queue.client)
        self._config = config
        self._seed_state = _seed_state(config)
        self._buffer = DocumentBuffer(service.model.config.defaults.max_utterance_characters)
        self._held: list[TextPart] = []  # the utterance of which it is not known what follows it
        self._whole: list[str] = []  # text that is spoken as one, since it has a duration
        self._run: Run | None = None  # the run that new text belongs to
        self._flush_timer: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        """Return whether anything is being spoken."""
        return self._speech_queue.is_active

    @property
    def has_text(self) -> bool:
        """Return whether any text came since the last flush."""
        return self._run is not None and self._run.has_text

    @property
    def config(self) -> RunConfig:
        """The settings of the next run."""
        return self._config

    def configure(self, config: RunConfig, *, is_seed_new: bool = False) -> None:
        """Change the settings; a run that has begun keeps its own.

        Args:
            config: checked settings.
            is_seed_new: whether the numbering of utterances begins again. So the next text sounds
                as the first text of a context with that seed.
        """
        self._config = config
        if is_seed_new:
            self._seed_state = _seed_state(config)

    async def append(self, text: str) -> None:
        """Add text, and have the utterances and documents spoken that are complete.

        Raises:
            ServingError: it is too much, or comes too late.
        """
        self._check_room_for(text)
        self._stop_timer()
        run = self._current_run()
        run.has_text = run.has_text or bool(text.strip())
        if run.config.duration is not None:
            self._whole.append(text)
            parts = []
        elif self._buffer.waiting + len(text) > _LONG_TEXT:
            parts = await self._service.in_parsing_thread(lambda: self._buffer.push(text))
        else:
            with self._budget.spending():
                parts = self._buffer.push(text)
        with self._budget.spending():
            self._speak_parts(run, parts)
        if run.config.flush_after is not None:
            loop = asyncio.get_running_loop()
            self._flush_timer = loop.call_later(run.config.flush_after / 1000, self._on_timer)
        await self._budget.pause()

    def append_whole(self, text: str) -> None:
        """Add a text as one utterance, which the library divides; for text that is complete.

        Raises:
            ServingError: as :meth:`append`.
        """
        self._check_room_for(text)
        run = self._current_run()
        run.has_text = True
        self._speech_queue.put(QueuedUtterance(run, text, reads_ssml=True))

    def speak_rest(self) -> None:
        """Have all text spoken that has come; the run goes on."""
        run = self._current_run()
        whole, self._whole = "".join(self._whole), []
        if whole.strip():
            self._speech_queue.put(QueuedUtterance(run, whole, reads_ssml=True))
        self._speak_parts(run, self._buffer.flush(), is_rest=True)

    def flush(self) -> None:
        """Have all text spoken that has come; the run's end follows.

        Raises:
            ServingError: the context is done, or too many flushes wait.
        """
        self._check_not_done()
        self._check_waiting_ends()
        self._end_run(is_requested=True)

    def done(self) -> None:
        """Flush; then the context ends.

        Raises:
            BadRequestError: the context is done already.
        """
        self._check_not_done()
        self.is_done = True
        self._end_run(is_last=True)

    def touch(self) -> None:
        """Note that the client still uses it."""
        self.last_used = time.monotonic()

    async def until_idle(self) -> None:
        """Wait until nothing is being spoken."""
        await self._speech_queue.until_idle()

    async def cancel(self) -> Run | None:
        """Stop speaking and drop all text; return the run that was interrupted, if any."""
        self._stop_timer()
        self._buffer.clear()
        self._held.clear()
        self._whole.clear()
        self._run = None
        return await self._speech_queue.cancel()

    def _end_run(self, *, is_requested: bool = False, is_last: bool = False) -> None:
        self._stop_timer()
        self.speak_rest()
        run, self._run = self._current_run(), None
        self._speech_queue.put(RunEnd(run, is_requested, is_last))

    def _on_timer(self) -> None:
        """Flush, unless a document is not complete: no part of it can be spoken alone."""
        if not self._buffer.is_in_document:
            self._end_run()

    def _speak_parts(self, run: Run, parts: list[TextPart], *, is_rest: bool = False) -> None:
        """Queue parts; the last one stays here until it is known what divides it from the next.

        Args:
            is_rest: whether nothing follows.
        """
        parts, self._held = [*self._held, *parts], []
        texts = [*(part.text for part in parts), "" if is_rest else self._buffer.pending]
        for part, text in zip(parts, texts[1:], strict=True):
            border: Border | None = Border.NONE
            if run.config.paragraph_pause is not None and not part.is_document:
                border = border_between(part.text, text)
            if border is None and not is_rest and part is parts[-1]:
                self._held = [part]
            else:
                ending = border or Border.NONE
                self._speech_queue.put(QueuedUtterance(run, part.text, part.is_document, ending))

    def _current_run(self) -> Run:
        if self._run is None:
            self._run = Run(self._config, self._seed_state)
        return self._run

    def _check_room_for(self, text: str) -> None:
        self._check_not_done()
        if self._run is None:
            self._check_service()
            self._check_waiting_ends()
        most = self._service.settings.limits.characters
        held = self._buffer.waiting + sum(map(len, self._whole))
        held += sum(len(part.text) for part in self._held)
        waiting = held + self._speech_queue.waiting_characters
        if waiting + len(text) > most:
            raise RequestTooLargeError(
                f"{waiting} characters are already waiting, and these would exceed the limit of "
                f"{most}: send them later",
                param="text",
            )

    def _check_not_done(self) -> None:
        if self.is_done:
            raise BadRequestError(
                "this context is closed and accepts no more text: wait until it has finished, or "
                "use another context_id",
                param="context_id",
            )

    def _check_waiting_ends(self) -> None:
        if self._speech_queue.waiting_ends >= _MAX_WAITING_ENDS:
            raise OverloadedError(
                f"{_MAX_WAITING_ENDS} flushed texts are already waiting: send the next one later",
                own_limit=True,
            )

    def _check_service(self) -> None:
        if self._service.admission.draining:
            raise OverloadedError(
                "the server is shutting down and accepts no more texts: use another one",
                draining=True,
            )
        if self._service.failed.is_set():
            raise UnavailableError(ENGINE_STOPPED)

    def _stop_timer(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None


def _seed_state(config: RunConfig) -> SeedState:
    return SeedState() if config.seed is None else SeedState(config.seed)
