"""Speak the lines of a script by the server's queue, as requests that wait for all others."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace

import numpy as np

from ...audio.samples import SAMPLE_RATE, Samples
from ...errors import ChatTTSError, NothingToSpeakError, named_parts
from ...longform.attempts import CUT_OFF, Attempt, AttemptingVoice
from ...longform.line_store import SpokenLine, SpokenPart
from ...longform.planned import PlannedLine, Reference
from ...model.generation import FinishReason
from ...pipeline.results import Piece, Word
from ...text.lexicon import Lexicon
from ..errors import DeadlineError, OverloadedError, ServingError, UnavailableError
from ..requests.request import SpeechRequest
from ..speech.service import SpeechService

_POLL = 0.1  # seconds between looks at the event that ends a line
_LONGEST_PAUSE = 5.0  # seconds between two attempts to get a ticket of the queue
_SHORTEST_PAUSE = 0.5
# Attempts of one line while the server goes on and its engine does not answer.
_MOST_FAILURES = 20


class ServiceVoice(AttemptingVoice):
    """A voice on the service.

    A line is a request with the priority ``batch``. Where the queue is full, it waits and asks
    again: a script has time.

    Args:
        service: speaks.
        loop: of the service.
        slots: lines of all scripts that may be spoken at a time.
        warn: called with each warning, which names its line; in any thread.
    """

    def __init__(
        self,
        service: SpeechService,
        loop: asyncio.AbstractEventLoop,
        slots: asyncio.Semaphore,
        warn: Callable[[str], None],
    ) -> None:
        super().__init__(warn)
        self._service, self._loop, self._slots = service, loop, slots

    def attempt(
        self, planned: PlannedLine, stop: threading.Event, which: Attempt
    ) -> SpokenLine | None:
        """Return an attempt at a line; ``None`` also if the server was stopped."""
        request: SpeechRequest = planned.arguments["request"]
        if which.number:
            request = replace(
                request,
                seed=which.seed(request.seed),
                request_id=f"{request.request_id}-{which.number}",
                continued=which.sample,
            )
        return self._asked(planned, request, stop, tells=not which.number)

    def sounds(
        self, planned: PlannedLine, reference: Reference, stop: threading.Event
    ) -> list[tuple[Samples, str]] | None:
        """Return the sounds of a reference: see :class:`...longform.attempts.AttemptingVoice`."""
        request: SpeechRequest = planned.arguments["request"]
        plain = replace(request, lexicon=Lexicon(), word_times=False, guard=None, duration=None)
        coming = [
            self._coming(
                planned,
                replace(plain, text=text, request_id=f"{request.request_id}-r{number}"),
                tells=False,
            )
            for number, text in enumerate(reference.texts, 1)
        ]
        try:
            spoken = [self._come(planned, future, stop) for future in coming]
        finally:
            for future in coming:
                future.cancel()
        lines = [line for line in spoken if line is not None]
        if len(lines) < len(spoken):
            return None
        return [(line.samples, " ".join(part.text for part in line.parts)) for line in lines]

    def sample(self, sound: Samples, text: str) -> dict[str, str] | None:
        """Return parameters by which speech continues a sound: see ``AttemptingVoice``."""
        try:
            codes = self._service.model.encode_sample(sound, SAMPLE_RATE)
        except UnavailableError:
            raise
        except ChatTTSError:
            return None
        return {"spk_smp": codes, "txt_smp": text}

    def _asked(
        self, planned: PlannedLine, request: SpeechRequest, stop: threading.Event, *, tells: bool
    ) -> SpokenLine | None:
        """Return the speech of a request; ``None`` if it, or the server, was stopped.

        Args:
            tells: warn of what is left out.

        Raises:
            ScriptError: it cannot be spoken.
        """
        return self._come(planned, self._coming(planned, request, tells=tells), stop)

    def _coming(
        self, planned: PlannedLine, request: SpeechRequest, *, tells: bool
    ) -> Future[SpokenLine | None]:
        spoken = self._spoken(planned, request, tells=tells)
        return asyncio.run_coroutine_threadsafe(spoken, self._loop)

    def _come(
        self, planned: PlannedLine, future: Future[SpokenLine | None], stop: threading.Event
    ) -> SpokenLine | None:
        while not wait([future], _POLL).done:
            if stop.is_set():
                future.cancel()
        try:
            return future.result()
        except CancelledError:
            return None
        except ServingError as error:
            raise planned.line.place.error(str(error)) from error

    async def _spoken(
        self, planned: PlannedLine, request: SpeechRequest, *, tells: bool
    ) -> SpokenLine | None:
        """Return the speech of a request; ``None`` if the server ends."""
        failures = 0
        async with self._slots:
            while True:
                try:
                    return await self._spoken_once(planned, request, tells=tells)
                except (OverloadedError, DeadlineError, UnavailableError) as error:
                    if self._service.ends:
                        return None
                    failures += isinstance(error, UnavailableError)
                    if failures > _MOST_FAILURES:
                        raise
                    asked = error.retry_after or _SHORTEST_PAUSE
                await asyncio.sleep(min(max(asked, _SHORTEST_PAUSE), _LONGEST_PAUSE))

    async def _spoken_once(
        self, planned: PlannedLine, request: SpeechRequest, *, tells: bool
    ) -> SpokenLine:
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
                if tells:
                    self._warn(f"{place}: {why}; it stays silent")
                return joined([])
            raise
        if speech.left_out and tells:
            self._warn(f"{place}: the voice cannot speak {named_parts(speech.left_out)}; left out")
        return joined(pieces)


def joined(pieces: Sequence[Piece]) -> SpokenLine:
    """Return the speech of a line from its pieces."""
    texts: dict[int, str] = {}
    samples: Counter[int] = Counter()
    faults: defaultdict[int, list[str]] = defaultdict(list)
    words: list[Word] = []
    for piece in pieces:
        number = piece.utterance
        texts[number] = piece.text
        samples[number] += len(piece.samples)
        faults[number] += (f"{fault.kind} {fault.text}".rstrip() for fault in piece.faults)
        if piece.finish_reason == FinishReason.LENGTH.value:
            faults[number].append(CUT_OFF)
        words += piece.words
    sound = [np.zeros(0, dtype=np.float32), *(piece.samples for piece in pieces)]
    parts = (SpokenPart(text, samples[n], tuple(faults[n])) for n, text in texts.items())
    return SpokenLine(np.concatenate(sound), tuple(parts), tuple(words))
