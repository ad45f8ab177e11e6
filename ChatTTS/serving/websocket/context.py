"""One stream of text on a socket, and its voice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..errors import BadRequestError, OverloadedError, RequestTooLargeError, UnavailableError
from ..service import ENGINE_STOPPED, SpeechService
from .config import ContextConfig
from .player import Player, RunEnd, Words
from .run import Draws, Run
from .text_buffer import TextBuffer

# Flushes whose text is not spoken yet; more of them are a client that has gone wild.
_MOST_ENDS = 64
# Cutting this much takes longer than the event loop may be held up.
_LONG_TEXT = 1000


class Context:
    """Gathers text and has it spoken.

    Args:
        config: how; it applies to a run from its first text on.
        player: speaks.

    Attributes:
        is_done: whether no more text comes.
    """

    def __init__(self, service: SpeechService, config: ContextConfig, player: Player) -> None:
        self.is_done = False
        self._service, self._player = service, player
        self._config = config
        self._draws = _draws(config)
        self._buffer = TextBuffer(service.chat.config.defaults.max_utterance_characters)
        self._run: Run | None = None  # for which text comes
        self._quiet: asyncio.TimerHandle | None = None

    @property
    def is_active(self) -> bool:
        """Whether anything is spoken."""
        return self._player.is_active

    def configure(self, fields: Mapping[str, Any]) -> None:
        """Change settings; a run that has begun keeps those it has.

        Naming a seed begins the row of draws anew, so that the next text sounds as the first one
        with that seed would.

        Raises:
            BadRequestError: what cannot be used.
        """
        self._config = self._config.changed(fields)
        if "seed" in fields:
            self._draws = _draws(self._config)

    async def append(self, text: str) -> None:
        """Take more text, and speak what is complete.

        Raises:
            ServingError: it is too much, or too late.
        """
        self._check_open()
        if self._run is None:
            self._check_welcome()
            self._check_ends()
        most = self._service.settings.limits.characters
        waiting = self._buffer.waiting + self._player.waiting_characters
        if waiting + len(text) > most:
            raise RequestTooLargeError(
                f"{waiting} characters wait to be spoken, and with these there would be more than "
                f"{most}: send them later",
                param="text",
            )
        self._stop_timer()
        run = self._opened()
        run.has_text = run.has_text or bool(text.strip())
        if self._buffer.waiting + len(text) > _LONG_TEXT:
            utterances = await self._service.in_thread(lambda: self._buffer.push(text))
        else:
            utterances = self._buffer.push(text)
        for utterance in utterances:
            self._player.put(Words(run, utterance))
        if run.config.flush_after is not None:
            loop = asyncio.get_running_loop()
            self._quiet = loop.call_later(run.config.flush_after / 1000, self._end_run)

    def flush(self) -> None:
        """Speak all that is here; its ``audio.done`` follows.

        Raises:
            ServingError: the context is done, or too many flushes wait.
        """
        self._check_open()
        self._check_ends()
        self._end_run(is_asked=True)

    def done(self) -> None:
        """As :meth:`flush`; then the context ends.

        Raises:
            BadRequestError: it was said before.
        """
        self._check_open()
        self.is_done = True
        self._end_run(is_last=True)

    async def cancel(self) -> Run | None:
        """Be silent and forget all text; gives the run that is broken off, if one is."""
        self._stop_timer()
        self._buffer.clear()
        self._run = None
        return await self._player.cancel()

    def _end_run(self, *, is_asked: bool = False, is_last: bool = False) -> None:
        self._stop_timer()
        run = self._opened()
        self._run = None
        for utterance in self._buffer.flush():
            self._player.put(Words(run, utterance))
        self._player.put(RunEnd(run, is_asked, is_last))

    def _opened(self) -> Run:
        if self._run is None:
            self._run = Run(self._config, self._draws)
        return self._run

    def _check_open(self) -> None:
        if self.is_done:
            raise BadRequestError(
                "input.done was said in this context: wait for its session.done, or use another "
                "context_id",
                param="context_id",
            )

    def _check_ends(self) -> None:
        if self._player.waiting_ends >= _MOST_ENDS:
            raise OverloadedError(
                f"{_MOST_ENDS} flushed texts wait to be spoken: send the next one later",
                own_limit=True,
            )

    def _check_welcome(self) -> None:
        if self._service.admission.draining:
            raise OverloadedError(
                "the server is shutting down and takes no more texts: ask another one",
                draining=True,
            )
        if self._service.failed.is_set():
            raise UnavailableError(ENGINE_STOPPED)

    def _stop_timer(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None


def _draws(config: ContextConfig) -> Draws:
    return Draws() if config.seed is None else Draws(config.seed)
