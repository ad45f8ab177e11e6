"""Speaks the utterances of one context in order, the next one while the last is sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from ...pipeline.results import Piece
from ..errors import (
    DeadlineError,
    OverloadedError,
    ServingError,
    UnavailableError,
    as_serving_error,
)
from ..request_logs import log_failure, log_refusal
from ..service import SpeechService
from .outbox import Channel
from .run import Run
from .voicing import Voicing

# Small enough for every client's limit in base64, and for a cancel to come between.
_FRAME_BYTES = 1 << 15
# Errors that the rest of a text would meet as well.
_LASTING = (OverloadedError, DeadlineError, UnavailableError)


@dataclass(frozen=True)
class Words:
    """An utterance to be spoken in a run."""

    run: Run
    text: str


@dataclass(frozen=True)
class RunEnd:
    """All text of a run came.

    Attributes:
        is_asked: whether the client waits for its ``audio.done`` also where it had no text.
        is_last: whether the context ends with it.
    """

    run: Run
    is_asked: bool
    is_last: bool = False


class Player:
    """Speaks what is put into it; it works while there is something to do.

    Args:
        client: who asks.
        channel: where everything goes.
        finished: told of each run at its end.
        ended: told when the context has ended.
    """

    def __init__(
        self,
        service: SpeechService,
        client: str,
        channel: Channel,
        finished: Callable[[Run], None],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        self._service, self._client, self._channel = service, client, channel
        self._finished, self._ended = finished, ended
        self._items: deque[Words | RunEnd] = deque()
        self._task: asyncio.Task[None] | None = None
        self._current: tuple[Words, Voicing] | None = None
        self._ahead: tuple[Words, Voicing] | None = None
        self._open: Run | None = None  # whose audio.start was sent

    @property
    def is_active(self) -> bool:
        """Whether there is anything left to do."""
        return self._task is not None and not self._task.done()

    @property
    def waiting_characters(self) -> int:
        """Of utterances whose turn is to come."""
        return sum(len(item.text) for item in self._items if isinstance(item, Words))

    @property
    def waiting_ends(self) -> int:
        """Runs that are not over."""
        return sum(isinstance(item, RunEnd) for item in self._items)

    def put(self, item: Words | RunEnd) -> None:
        """Have it done after all that came before."""
        self._items.append(item)
        if not self.is_active:
            self._task = asyncio.create_task(self._play(), name="context")
        self._look_ahead()

    async def cancel(self) -> Run | None:
        """Stop within a step and forget all that waits; gives the run that is broken off."""
        self._items.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        run, self._open = self._open, None
        return run

    async def _play(self) -> None:
        with self._service.hold():
            try:
                while self._items:
                    item = self._items.popleft()
                    if isinstance(item, RunEnd):
                        await self._end(item)
                    elif not item.run.is_abandoned:
                        await self._speak(item)
            finally:
                await self._drop_ahead()

    # -- an utterance ----------------------------------------------------------------------

    async def _speak(self, words: Words) -> None:
        try:
            try:
                await self._voice(words, self._taken(words))
            except (OverloadedError, DeadlineError):
                # There was no room for it before its turn; now there may be.
                if not (self._current and self._current[1].is_ahead):
                    raise
                await self._drop_current()
                await self._voice(words, self._voicing(words, words.run.draws.number))
        except Exception as error:  # told to the client; other utterances may go well
            await self._fail(words.run, error)
        finally:
            await self._drop_current()

    def _taken(self, words: Words) -> Voicing:
        """What was begun ahead, if it is this."""
        if self._ahead is not None and self._ahead[0] is words:
            voicing, self._ahead = self._ahead[1], None
            return voicing
        return self._voicing(words, words.run.draws.number)

    async def _voice(self, words: Words, voicing: Voicing) -> None:
        self._current = (words, voicing)
        await voicing.settled()
        self._look_ahead()
        run = words.run
        is_heard = False
        while (piece := await voicing.take()) is not None:
            if not is_heard:
                is_heard = True
                await self._begin(words, voicing)
            await self._send_piece(run, piece)
        run.draws.number = voicing.number + voicing.count
        if is_heard:
            run.timeline.end(voicing.samples)

    async def _begin(self, words: Words, voicing: Voicing) -> None:
        run = words.run
        if not run.is_started:
            run.is_started = True
            self._open = run
            await self._channel.send(
                "audio.start",
                sample_rate=run.config.rate,
                format=run.config.format.value,
                seed=run.draws.seed,
                request_id=run.request_id,
            )
        run.draws.number = voicing.number + voicing.count
        run.timeline.begin(words.text, round(run.sent_source))
        await self._channel.send(
            "text.spoken",
            utterance=voicing.number,
            text=words.text,
            position=run.sent_samples,
        )

    async def _fail(self, run: Run, error: Exception) -> None:
        told = as_serving_error(error)
        if type(told) is ServingError:
            with_text = self._service.settings.log_texts
            log_failure(f"request {run.request_id}", told, with_text=with_text)
        if self._current is not None:
            voicing = self._current[1]
            run.draws.number = voicing.number + voicing.count
            if not voicing.has_begun:
                self._service.metrics.count_refusal(told)
                name = run.request_id
                log_refusal(told, "websocket", client=self._client, request_id=name)
        run.finished("error")
        if isinstance(told, _LASTING):
            run.is_abandoned = True
            await self._drop_ahead()
        await self._channel.send_error(told)

    # -- ahead -----------------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """Begin the utterance after the one that has begun."""
        if self._ahead is not None or self._current is None:
            return
        words, voicing = self._current
        following = next((item for item in self._items if isinstance(item, Words)), None)
        if following is None or following.run.is_abandoned or not voicing.has_begun:
            return
        draws = following.run.draws
        is_same = draws is words.run.draws
        number = voicing.number + voicing.count if is_same else draws.number
        self._ahead = (following, self._voicing(following, number, is_ahead=True))

    def _voicing(self, words: Words, number: int, *, is_ahead: bool = False) -> Voicing:
        run = words.run
        follows = self._current is not None and self._current[0].run is run
        request = run.config.request(
            words.text,
            run.draws.seed,
            is_first=not (run.is_started or follows),
            client=self._client,
            request_id=f"{run.request_id}.{number}",
            first_utterance=number,
            continues=True,
        )
        return Voicing(self._service, request, is_ahead=is_ahead)

    async def _drop_current(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            await current[1].close()

    async def _drop_ahead(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            await ahead[1].close()

    # -- sound -----------------------------------------------------------------------------

    async def _send_piece(self, run: Run, piece: Piece) -> None:
        data = await self._service.in_thread(partial(run.encoder.push, piece.samples))
        run.unsent_source += len(piece.samples)
        await self._send(run, data)
        if piece.finish_reason is not None:
            run.finished(piece.finish_reason)

    async def _send(self, run: Run, data: bytes) -> None:
        """Send bytes in frames; all samples that went into the encoder are in them."""
        source, run.unsent_source = (run.unsent_source, 0) if data else (0, run.unsent_source)
        for start in range(0, len(data), _FRAME_BYTES):
            frame = data[start : start + _FRAME_BYTES]
            await self._channel.send_audio(frame, run.sent_samples, is_base64=run.config.is_base64)
            run.sent_bytes += len(frame)
            run.sent_source += source * len(frame) / len(data)

    async def _end(self, end: RunEnd) -> None:
        run = end.run
        if run.is_started:
            try:
                await self._send(run, await self._service.in_thread(run.encoder.finish))
            except Exception as error:  # the run ends all the same
                await self._fail(run, error)
        if end.is_asked or run.has_text:
            await self._channel.send(
                "audio.done",
                total_bytes=run.sent_bytes,
                total_samples=run.sent_samples,
                text=run.timeline.text,
                finish_reason=run.finish_reason,
            )
        self._open = None
        if run.is_started:
            self._finished(run)
        if end.is_last:
            await self._channel.send("session.done")
            await self._ended()
