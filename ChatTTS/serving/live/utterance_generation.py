"""Generate an utterance in a task, possibly while the previous utterance is still being sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...pipeline.results import Piece
from ..errors import ServingError, as_serving_error
from ..requests.request import SpeechRequest
from ..speech.service import SpeechService


class UtteranceGeneration:
    """Generates one utterance, at most one piece ahead of its consumer. The creator closes it.

    Args:
        request: the utterance.
        is_prefetched: whether it is begun before its turn.

    A request that ``may_be_silent`` and has no letters gives no piece and counts as none.

    Attributes:
        speech: of the utterance.
        number: of its first utterance; a long one is spoken in several.
        next_number: that of the utterance after it, once generation has begun; of SSML, after those
            that were begun.
        is_counted: whether ``next_number`` is final.
        has_begun: whether the engine has accepted the request.
        left_out: what the voice cannot speak of it, as far as it was known then.
        samples: number of samples generated so far, at 24 kHz.
    """

    def __init__(
        self, service: SpeechService, request: SpeechRequest, *, is_prefetched: bool
    ) -> None:
        self.speech = service.speak(request)
        self.number = self.next_number = request.first_utterance
        self.is_prefetched = is_prefetched
        self.is_counted = False
        self.has_begun = False
        self.left_out: Sequence[str] = ()
        self.samples = 0
        self._begun_or_failed = asyncio.Event()
        self._pieces: asyncio.Queue[Piece | ServingError | None] = asyncio.Queue(1)
        self._task = asyncio.create_task(self._generate(), name=f"utterance {request.request_id}")

    async def wait_until_begun(self) -> None:
        """Wait until generation has begun or has failed to begin."""
        await self._begun_or_failed.wait()

    async def next_piece(self) -> Piece | None:
        """Return the next piece; ``None`` at the end.

        Raises:
            ServingError: the utterance cannot be spoken.
        """
        item = await self._pieces.get()
        if isinstance(item, ServingError):
            raise item
        return item

    async def close(self) -> None:
        """Stop generating within one engine step, and wait until that has happened."""
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _generate(self) -> None:
        end: ServingError | None = None
        try:
            await self._speak()
        except Exception as error:  # raised again in next_piece
            end = as_serving_error(error)
        self._begun_or_failed.set()
        await self._pieces.put(end)

    async def _speak(self) -> None:
        async with self.speech as speech:
            self.next_number, self.is_counted = speech.next_utterance, not speech.request.segments
            self.has_begun, self.left_out = True, speech.left_out
            self._begun_or_failed.set()
            async for piece in speech:
                if speech.is_silent:  # other utterances may have words
                    continue
                self.samples += len(piece.samples)
                await self._pieces.put(piece)
            self.next_number, self.is_counted = speech.next_utterance, True
