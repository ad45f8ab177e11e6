"""An utterance that is generated while another one may still be sent."""

from __future__ import annotations

import asyncio

from ...pipeline.results import Piece
from ..errors import ServingError, as_serving_error
from ..request_logs import log_request
from ..requests import SpeechRequest
from ..service import SpeechService


class Voicing:
    """Generates one utterance, a piece ahead of whoever takes them. Whoever makes it closes it.

    Args:
        request: the utterance.
        is_ahead: whether it is begun before its turn.

    Attributes:
        number: of its first utterance; a long one is spoken in several.
        count: of these, once it has begun.
        has_begun: whether it was taken by the engine.
        samples: generated so far, at 24 kHz.
        is_whole: whether these are all.
    """

    def __init__(self, service: SpeechService, request: SpeechRequest, *, is_ahead: bool) -> None:
        self.number = request.first_utterance
        self.is_ahead = is_ahead
        self.count = 0
        self.has_begun = False
        self.samples = 0
        self.is_whole = False
        self._service, self._request = service, request
        self._settled = asyncio.Event()
        self._pieces: asyncio.Queue[Piece | ServingError | None] = asyncio.Queue(1)
        self._task = asyncio.create_task(self._generate(), name=f"voicing {request.request_id}")

    async def settled(self) -> None:
        """Wait until it has begun, or failed to."""
        await self._settled.wait()

    async def take(self) -> Piece | None:
        """The next piece; ``None`` at the end.

        Raises:
            ServingError: it cannot be spoken.
        """
        item = await self._pieces.get()
        if isinstance(item, ServingError):
            raise item
        return item

    async def close(self) -> None:
        """End it within a step, and wait for that."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _generate(self) -> None:
        end: ServingError | None = None
        try:
            await self._speak()
        except Exception as error:  # told to whoever takes the pieces
            end = as_serving_error(error)
        self._settled.set()
        await self._pieces.put(end)

    async def _speak(self) -> None:
        service = self._service
        speech = service.speak(self._request)
        try:
            async with speech:
                self.count = speech.utterances
                self.has_begun = True
                self._settled.set()
                async for piece in speech:
                    self.samples += len(piece.samples)
                    await self._pieces.put(piece)
                self.is_whole = True
        finally:
            if self.has_begun:
                with_text = service.settings.log_texts
                log_request(speech.record, "websocket", with_text=with_text)
