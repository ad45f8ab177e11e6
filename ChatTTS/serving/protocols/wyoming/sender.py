"""Tells a client what comes of its texts, in Wyoming's events."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.error import Error
from wyoming.event import Event, async_write_event
from wyoming.tts import SynthesizeStopped

from ....audio.samples import SAMPLE_RATE
from ...errors import DeadlineError, ServingError, as_serving_error
from ...live.listener import Listener
from ...live.run import Run, RunEnd
from ...observe.request_logs import log_failure, log_refusal
from ...speech.service import SpeechService

INTERFACE = "wyoming"
"""The name of this interface in logs."""
_FORMAT: dict[str, int] = {"rate": SAMPLE_RATE, "width": 2, "channels": 1}


class Sender(Listener):
    """Writes the events of one connection.

    Args:
        service: has the limits, and counts refusals.
        client: the client's name, for logs.
        writer: of the connection.
    """

    interface = INTERFACE

    def __init__(self, service: SpeechService, client: str, writer: asyncio.StreamWriter) -> None:
        self._service, self._client, self._writer = service, client, writer
        self._are_streams: deque[bool] = deque()  # of the texts whose end has come

    def expect_end(self, *, is_stream: bool) -> None:
        """Note that the sound of the text that has just ended is to end.

        Args:
            is_stream: whether the text came in parts.
        """
        self._are_streams.append(is_stream)

    def close(self) -> None:
        """Close the connection after what was written."""
        self._writer.close()

    async def write(self, event: Event) -> None:
        """Write an event; nothing to a client that has left.

        Raises:
            DeadlineError: the client does not read.
        """
        seconds = self._service.settings.limits.stalled_seconds
        try:
            await asyncio.wait_for(async_write_event(event, self._writer), seconds)
        except asyncio.TimeoutError:
            self._writer.transport.abort()  # what waits to be written would not be read either
            raise DeadlineError(f"the client read nothing for {seconds:g} s: read faster") from None
        except OSError:
            self.close()

    async def tell(self, error: Exception) -> None:
        """Log an error and tell the client, unless the client has left."""
        if isinstance(error, OSError):
            return
        refusal = as_serving_error(error)
        if type(refusal) is ServingError:
            log_failure("a request over Wyoming", refusal, with_text=False)
        self._service.metrics.count_refusal(refusal)
        log_refusal(refusal, INTERFACE, client=self._client)
        await self._write_error(refusal)

    async def run_started(self, run: Run) -> None:
        """Begin the sound of a text."""
        await self.write(AudioStart(**_FORMAT).event())

    async def sound(self, run: Run, data: bytes) -> None:
        """Write PCM."""
        await self.write(AudioChunk(audio=data, **_FORMAT).event())

    async def run_ended(self, end: RunEnd) -> None:
        """End the sound of a text; a text with nothing to speak is a short silence."""
        run = end.run
        is_stream = self._are_streams.popleft()
        if run.is_abandoned:
            return
        if not run.is_started:
            await self.run_started(run)
            await self.sound(run, run.config.silence())
        await self.write(AudioStop().event())
        if is_stream:
            await self.write(SynthesizeStopped().event())

    async def failed(self, run: Run, error: ServingError) -> None:
        """Tell an error and close the connection: clients wait for sound, and not for errors."""
        run.is_abandoned = True
        await self._write_error(error)
        self.close()

    async def _write_error(self, error: ServingError) -> None:
        with contextlib.suppress(ServingError):
            await self.write(Error(text=str(error), code=error.code).event())
