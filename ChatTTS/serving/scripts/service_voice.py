"""Speak the lines of a script by the server's queue, as requests that wait for all others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, wait

import numpy as np

from ...errors import NothingToSpeakError, named_parts
from ...longform.kept_lines import SpokenLine, SpokenPart
from ...longform.planned import PlannedLine
from ...pipeline.results import Fault, Piece, Word
from ..errors import DeadlineError, OverloadedError, ServingError, UnavailableError
from ..requests.request import SpeechRequest
from ..speech.service import SpeechService

_POLL = 0.1  # seconds between looks at the event that ends a line
_LONGEST_PAUSE = 5.0  # seconds between two attempts to get a place in the queue
_SHORTEST_PAUSE = 0.5
# Attempts of one line while the server goes on and its engine does not answer.
_MOST_FAILURES = 20


class ServiceVoice:
    """A :class:`...longform.line_speaker.LineVoice` on the service.

    A line is a request with the priority ``batch``. Where the queue is full, it waits and asks
    again: a script has time.

    Args:
        service: speaks.
        loop: of the service.
        places: lines of all scripts that may be spoken at a time.
        warn: called with each warning, which names its line; in any thread.
    """

    def __init__(
        self,
        service: SpeechService,
        loop: asyncio.AbstractEventLoop,
        places: asyncio.Semaphore,
        warn: Callable[[str], None],
    ) -> None:
        self._service, self._loop, self._places, self._warn = service, loop, places, warn

    def speak(self, planned: PlannedLine, stop: threading.Event) -> SpokenLine | None:
        """Return the speech of a line; ``None`` if it, or the server, was stopped before its end.

        Raises:
            ScriptError: the line cannot be spoken.
        """
        future = asyncio.run_coroutine_threadsafe(self._spoken(planned), self._loop)
        while not wait([future], _POLL).done:
            if stop.is_set():
                future.cancel()
        try:
            return future.result()
        except CancelledError:
            return None
        except ServingError as error:
            raise planned.line.place.error(str(error)) from error

    async def _spoken(self, planned: PlannedLine) -> SpokenLine | None:
        """Return the speech of a line; ``None`` if the server ends."""
        request: SpeechRequest = planned.arguments["request"]
        failures = 0
        async with self._places:
            while True:
                try:
                    return await self._attempt(planned, request)
                except (OverloadedError, DeadlineError, UnavailableError) as error:
                    if self._service.ends:
                        return None
                    failures += isinstance(error, UnavailableError)
                    if failures > _MOST_FAILURES:
                        raise
                    asked = error.retry_after or _SHORTEST_PAUSE
                await asyncio.sleep(min(max(asked, _SHORTEST_PAUSE), _LONGEST_PAUSE))

    async def _attempt(self, planned: PlannedLine, request: SpeechRequest) -> SpokenLine:
        place = planned.line.place
        pieces: list[Piece] = []
        speech = self._service.speak(request)
        try:
            async with speech:
                async for piece in speech:
                    pieces.append(piece)
                speech.check_complete()
        except ServingError as error:
            cause = error.__cause__
            if isinstance(cause, NothingToSpeakError):
                why = "there is nothing to speak in it"
                if cause.left_out:
                    why = f"the voice cannot speak {named_parts(cause.left_out)}"
                self._warn(f"{place}: {why}; it stays silent")
                return joined([])
            raise
        if speech.left_out:
            self._warn(f"{place}: the voice cannot speak {named_parts(speech.left_out)}; left out")
        if speech.finish_reason == "length":
            self._warn(f"{place}: the speech was cut off at its longest")
        for fault in speech.faults:
            self._warn(_told(place, fault))
        return joined(pieces)


def joined(pieces: list[Piece]) -> SpokenLine:
    """Return the speech of a line from its pieces."""
    texts: dict[int, str] = {}
    samples: dict[int, int] = {}
    words: list[Word] = []
    for piece in pieces:
        texts[piece.utterance] = piece.text
        samples[piece.utterance] = samples.get(piece.utterance, 0) + len(piece.samples)
        words += piece.words
    sound = [np.zeros(0, dtype=np.float32), *(piece.samples for piece in pieces)]
    parts = tuple(SpokenPart(texts[number], samples[number]) for number in texts)
    return SpokenLine(np.concatenate(sound), parts, tuple(words))


def _told(place: object, fault: Fault) -> str:
    return f"{place}: {fault.kind} {fault.text}".rstrip()
