"""Speak the utterances of one context in order, and generate the next one while one is sent."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from ...pipeline.edges import NOTHING
from ...pipeline.results import Piece
from ...text.borders import Border
from ...text.pauses import ends_with_break
from ..errors import (
    DeadlineError,
    OverloadedError,
    ServingError,
    UnavailableError,
    UnspeakableError,
    as_serving_error,
)
from ..observe.request_logs import log_failure, log_refusal
from ..speech.service import SpeechService
from .listener import Listener, Utterance
from .run import QueuedUtterance, Run, RunEnd
from .utterance_generation import UtteranceGeneration

# Below every client's limit for a message, also in base64, and small enough for a cancel to take
# effect between two frames.
_FRAME_BYTES = 1 << 15
# Errors that the rest of a run's text would meet as well.
_ABANDONING_ERRORS = (OverloadedError, DeadlineError, UnavailableError)


class SpeechQueue:
    """Speaks what is put into it, in a task that runs while there is something to do.

    Args:
        client: the client's identity, for admission and logs.
        listener: hears what comes of it.
        on_run_finished: called with each run at its end.
        on_context_ended: called when the context has ended.
        skips_silence: whether an utterance with nothing to speak is left out, and fails only where
            its run has no other; else it fails.

    Attributes:
        client: as above.
        waiting_characters: number of characters of the utterances that are queued.
    """

    def __init__(
        self,
        service: SpeechService,
        client: str,
        listener: Listener,
        on_run_finished: Callable[[Run], None],
        on_context_ended: Callable[[], Awaitable[None]],
        *,
        skips_silence: bool,
    ) -> None:
        self._service, self.client, self._listener = service, client, listener
        self._on_run_finished, self._on_context_ended = on_run_finished, on_context_ended
        self._skips_silence = skips_silence
        self._items: deque[QueuedUtterance | RunEnd] = deque()
        self.waiting_characters = 0
        self._last: QueuedUtterance | None = None  # that was put
        self._task: asyncio.Task[None] | None = None
        self._current: tuple[QueuedUtterance, UtteranceGeneration] | None = None
        self._prefetched: tuple[QueuedUtterance, UtteranceGeneration] | None = None
        self._started_run: Run | None = None  # it has started, and not ended

    @property
    def is_active(self) -> bool:
        """Return whether there is anything left to do."""
        return self._task is not None and not self._task.done()

    @property
    def waiting_ends(self) -> int:
        """Number of run ends that are queued without anything to speak before them."""
        return sum(
            isinstance(item, RunEnd) and not isinstance(before, QueuedUtterance)
            for before, item in pairwise([None, *self._items])
        )

    def put(self, item: QueuedUtterance | RunEnd) -> None:
        """Queue an item."""
        if isinstance(item, QueuedUtterance):
            last, self._last = self._last, item
            if last is not None and last.run is item.run:
                follows_break = last.border is Border.PARAGRAPH or ends_with_break(last.text)
                item = replace(item, follows_break=follows_break)
        self._items.append(item)
        self.waiting_characters += _characters(item)
        if not self.is_active:
            self._task = asyncio.create_task(self._run(), name="context")
        self._prefetch()

    async def until_idle(self) -> None:
        """Wait until there is nothing left to do; an error of the work is not raised here."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def cancel(self) -> Run | None:
        """Stop within one engine step and drop all items; return the run that was interrupted."""
        self._items.clear()
        self.waiting_characters = 0
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        run, self._started_run = self._started_run, None
        return run

    async def _run(self) -> None:
        with self._service.hold():
            try:
                while self._items:
                    item = self._items.popleft()
                    self.waiting_characters -= _characters(item)
                    if isinstance(item, RunEnd):
                        await self._end(item)
                    elif not item.run.is_abandoned:
                        await self._speak(item)
            finally:
                await self._drop_prefetched()

    # -- an utterance ----------------------------------------------------------------------

    async def _speak(self, utterance: QueuedUtterance) -> None:
        try:
            try:
                await self._send_utterance(utterance, self._take_prefetched(utterance))
            except (OverloadedError, DeadlineError):
                # The server had no capacity for it before its turn; now it may have.
                if not (self._current and self._current[1].is_prefetched):
                    raise
                await self._drop_current()
                await self._send_utterance(utterance, self._generate(utterance))
        except Exception as error:  # sent to the client; other utterances may succeed
            if self._skips_silence and isinstance(error, UnspeakableError):
                utterance.run.unspeakable = utterance.run.unspeakable or error
            else:
                await self._fail(utterance.run, error)
        finally:
            await self._drop_current()

    def _take_prefetched(self, utterance: QueuedUtterance) -> UtteranceGeneration:
        """Return the prefetched generation if it is of this utterance; otherwise begin one."""
        if self._prefetched is not None and self._prefetched[0] is utterance:
            generation, self._prefetched = self._prefetched[1], None
            return generation
        return self._generate(utterance)

    async def _send_utterance(
        self, utterance: QueuedUtterance, generation: UtteranceGeneration
    ) -> None:
        self._current = (utterance, generation)
        await generation.wait_until_begun()
        self._prefetch()
        run = utterance.run
        has_sound = False
        while (piece := await generation.next_piece()) is not None:
            if not has_sound:
                has_sound = True
                await self._announce(utterance, generation)
            await self._send_piece(run, piece)
        run.seed_state.next_utterance = generation.next_number
        if has_sound:
            run.timeline.end(generation.samples)
            await self._tell_words(run)

    async def _announce(self, utterance: QueuedUtterance, generation: UtteranceGeneration) -> None:
        run, speech = utterance.run, generation.speech
        if not run.is_started:
            run.is_started, run.voice = True, speech.voice_name
            self._started_run = run
            await self._listener.run_started(run)
        run.seed_state.next_utterance = generation.next_number
        text, warnings = speech.request.text, speech.request.shown_warnings
        run.timeline.begin(text, run.source_samples)
        uses = run.timeline.placed_uses(speech.lexicon_uses)
        began = Utterance(generation.number, text, uses, warnings, generation.left_out)
        await self._listener.utterance_started(run, began)

    async def _fail(self, run: Run, error: Exception) -> None:
        failure = as_serving_error(error)
        if type(failure) is ServingError:
            with_text = self._service.settings.log_texts
            log_failure(f"request {run.request_id}", failure, with_text=with_text)
        if self._current is not None:
            generation = self._current[1]
            run.seed_state.next_utterance = generation.next_number
            if not (generation.has_begun or generation.speech.was_counted):
                self._service.metrics.count_refusal(failure)
                name = run.request_id
                interface = self._listener.interface
                log_refusal(failure, interface, client=self.client, request_id=name)
        run.record_finish("error")
        if isinstance(failure, _ABANDONING_ERRORS):
            run.is_abandoned = True
            await self._drop_prefetched()
        await self._listener.failed(run, failure)

    # -- prefetching -----------------------------------------------------------------------

    def _prefetch(self) -> None:
        """Begin to generate the next queued utterance, once the current one has begun.

        After a document of SSML, whose utterances are counted at its end, it is not begun ahead.
        """
        if self._prefetched is not None or self._current is None:
            return
        utterance, generation = self._current
        if not generation.has_begun:
            return
        state = utterance.run.seed_state
        state.language = state.language or generation.speech.request.voice_language
        following = next((item for item in self._items if isinstance(item, QueuedUtterance)), None)
        if following is None or following.run.is_abandoned:
            return
        is_same_seed = following.run.seed_state is state
        if is_same_seed and not generation.is_counted:
            return
        number = generation.next_number if is_same_seed else None
        self._prefetched = (following, self._generate(following, number, is_prefetched=True))

    def _generate(
        self, utterance: QueuedUtterance, number: int | None = None, *, is_prefetched: bool = False
    ) -> UtteranceGeneration:
        """Begin to generate; ``number`` is the context's next one by default."""
        run = utterance.run
        cut: dict[str, Any] = {"silence_before": 0.0} if utterance.follows_break else {}
        if utterance.border is Border.PARAGRAPH:
            cut["silence_after"] = run.config.paragraph_pause
        elif utterance.border is Border.BREAK:
            cut["silence_after"] = 0.0  # the next utterance begins with the break
        number = run.seed_state.next_utterance if number is None else number
        follows = self._current is not None and self._current[0].run is run
        request = run.config.request(
            utterance.text,
            run.seed_state.seed,
            is_first=not (run.is_started or follows),
            is_last=False,
            client=self.client,
            interface=self._listener.interface,
            request_id=f"{run.request_id}.{number}",
            first_utterance=number,
            continues=True,
            may_be_silent=self._skips_silence,
            reads_ssml=utterance.reads_ssml,
            voice_language=run.seed_state.language,
            guard=self._service.guard_of(run.config.guard, is_whole=False),
            **cut,
        )
        return UtteranceGeneration(self._service, request, is_prefetched=is_prefetched)

    async def _drop_current(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            await current[1].close()

    async def _drop_prefetched(self) -> None:
        prefetched, self._prefetched = self._prefetched, None
        if prefetched is not None:
            await prefetched[1].close()

    # -- sound -----------------------------------------------------------------------------

    async def _send_piece(self, run: Run, piece: Piece) -> None:
        ready = run.end.push(piece.samples, is_last=False)
        data = await self._service.in_thread(partial(run.encoder.push, ready))
        run.unsent_source_samples += len(piece.samples)
        run.unsent_words.extend(run.timeline.add_words(piece.words))
        if piece.faults and run.config.tells_faults:
            placed = [run.timeline.placed(fault) for fault in piece.faults]
            await self._listener.faults_found(run, placed)
        await self._send(run, data)
        if piece.finish_reason is not None:
            run.record_finish(piece.finish_reason)

    async def _tell_words(self, run: Run, end: float = math.inf) -> None:
        """Tell the words that begin before ``end``, in samples at 24 kHz."""
        words = run.take_words(end)
        if words:
            await self._listener.words_known(run, words)

    async def _send(self, run: Run, data: bytes) -> None:
        """Send bytes in frames; they are counted as all samples that the encoder has taken."""
        if not data:
            return
        held = run.end.held
        source_samples, run.unsent_source_samples = run.unsent_source_samples - held, held
        for start in range(0, len(data), _FRAME_BYTES):
            frame = data[start : start + _FRAME_BYTES]
            end = run.sent_source_samples + source_samples * len(frame) / len(data)
            await self._tell_words(run, end)
            await self._listener.sound(run, frame)
            run.sent_bytes += len(frame)
            run.sent_source_samples = end

    async def _end(self, end: RunEnd) -> None:
        run = end.run
        if run.is_started:
            try:
                held = run.end.held
                rest = run.end.push(NOTHING, is_last=True)
                run.unsent_source_samples += len(rest) - held
                data = await self._service.in_thread(partial(run.encoder.push, rest))
                data += await self._service.in_thread(run.encoder.finish)
                await self._send(run, data)
            except Exception as error:  # the run ends nevertheless
                await self._fail(run, error)
        elif run.unspeakable is not None and not run.is_abandoned:
            await self._fail(run, run.unspeakable)
        await self._listener.run_ended(end)
        self._started_run = None
        if run.is_started:
            self._on_run_finished(run)
        if end.is_last:
            await self._listener.context_ended()
            await self._on_context_ended()


def _characters(item: QueuedUtterance | RunEnd) -> int:
    return len(item.text) if isinstance(item, QueuedUtterance) else 0
