"""Generate an utterance in a task, possibly while the previous utterance is still being sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ...pipeline.results import Piece
from ...text.lexicon import LexiconUse
from ..errors import ServingError, as_serving_error
from ..request_logs import log_request
from ..requests import SpeechRequest
from ..service import SpeechService
from ..speech import Speech


class UtteranceGeneration:
    """Generates one utterance, at most one piece ahead of its consumer. The creator closes it.

    Args:
        request: the utterance.
        interface: name of the protocol in logs.
        is_prefetched: whether it is begun before its turn.

    A request that ``may_be_silent`` and has no letters gives no piece and counts as none.

    Attributes:
        number: of its first utterance; a long one is spoken in several.
        count: how many these are, once generation has begun; of SSML, those that were begun.
        text: what is spoken; of SSML, once generation has begun.
        warnings: what was left out of SSML, likewise.
        is_counted: whether ``count`` is final.
        has_begun: whether the engine has accepted the request.
        samples: number of samples generated so far, at 24 kHz.
        voice: name of the voice that speaks, once generation has begun.
        left_out: what the voice cannot speak of it, likewise.
        lexicon_uses: where a lexicon replaced its words, once generation has begun.
    """

    def __init__(
        self, service: SpeechService, request: SpeechRequest, interface: str, *, is_prefetched: bool
    ) -> None:
        self.number = request.first_utterance
        self.is_prefetched = is_prefetched
        self.count = 0
        self.text = request.text
        self.warnings: Sequence[str] = ()
        self.left_out: Sequence[str] = ()
        self.is_counted = False
        self.has_begun = False
        self.samples = 0
        self.voice = ""
        self.lexicon_uses: tuple[LexiconUse, ...] = ()
        self._service, self._request, self._interface = service, request, interface
        self._begun_or_failed = asyncio.Event()
        self._pieces: asyncio.Queue[Piece | ServingError | None] = asyncio.Queue(1)
        self._task = asyncio.create_task(self._generate(), name=f"utterance {request.request_id}")

    @property
    def next_number(self) -> int:
        """The number of the utterance after it."""
        return self.number + self.count

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
        service = self._service
        speech = service.speak(self._request)
        try:
            async with speech:
                self._note_count(speech, is_final=not speech.request.segments)
                self.text, self.warnings = speech.request.text, speech.request.shown_warnings
                self.voice = speech.voice_name
                self.lexicon_uses, self.left_out = speech.lexicon_uses, speech.left_out
                self.has_begun = True
                self._begun_or_failed.set()
                async for piece in speech:
                    if speech.is_silent:  # other utterances may have words
                        continue
                    self.samples += len(piece.samples)
                    await self._pieces.put(piece)
                self._note_count(speech, is_final=True)
        finally:
            if self.has_begun:
                with_text = service.settings.log_texts
                log_request(speech.record, self._interface, with_text=with_text)

    def _note_count(self, speech: Speech, *, is_final: bool) -> None:
        self.count = 0 if speech.is_silent else speech.utterances
        self.is_counted = is_final
