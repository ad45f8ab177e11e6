"""``POST /dev/captioned_speech``: speech and its words' times, as Kokoro-FastAPI gives them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fastapi import APIRouter, Request
from starlette.responses import Response

from ....languages import LANGUAGES, find_language, language_choice
from ....pipeline.results import Word
from ...encoding import Format
from ...encoding.base64_blocks import to_base64
from ...errors import BadRequestError
from ...http.responses import EncodedPiece, SpokenResponse, speech_request
from ...requests.request import SpeechRequest
from ...speech.config import RunConfig
from ...speech.service import SpeechService
from ...speech.speech import Speech
from .answer_schemas import (
    ERRORS,
    NOT_FOUND,
    CaptionedSpeech,
    WordTimestamp,
)
from .body_schemas import CaptionedBody
from .request_parsing import INTERFACE
from .streaming import RestBody, timed_words

_LINES = "application/x-ndjson"  # Kokoro-FastAPI calls them application/json, which they are not
# Clients of Kokoro-FastAPI pass its codes of languages: the first letter of a voice's name.
_LETTERS = {letter: each.code for each in LANGUAGES.values() for letter in each.kokoro}
_MEDIA_TYPES = {Format.OPUS: "audio/opus"}  # its name there; the bytes are Opus in Ogg


def captioned_routes(service: SpeechService) -> APIRouter:
    """Return the route of captioned speech."""
    router = APIRouter(tags=["speech"])

    @router.post(
        "/dev/captioned_speech",
        summary="Speak a text and tell the times of its words",
        operation_id="createCaptionedSpeech",
        response_model=CaptionedSpeech,
        responses={
            200: {
                "description": "An object; with `stream` such objects, one a line.",
                "content": {_LINES: {"schema": {"type": "string"}}},
            }
        }
        | ERRORS
        | NOT_FOUND,
    )
    async def create_captioned(body: CaptionedBody, request: Request) -> Response:
        """For clients of Kokoro-FastAPI. With `stream` the response has a line with such an object
        for each piece of sound, and times count from the beginning of the speech."""
        config = RunConfig.of(
            body.request_fields(),
            response_format=body.response_format,
            language=_language(body.lang_code, service.model.languages),
            word_times=body.return_timestamps,
        )
        asked = speech_request(
            service,
            config,
            body.input,
            request.state,
            INTERFACE,
            is_whole=not body.stream,
            may_be_silent=True,
        )
        volume = 1.0 if body.volume_multiplier is None else body.volume_multiplier
        format = config.format
        return SpokenResponse(
            service,
            asked,
            config.encoder,
            CaptionedSound(service, asked, format, is_streamed=body.stream),
            is_streamed=body.stream,
            headers={"content-disposition": f"attachment; filename=speech.{format.value}"},
            volume=volume,
        )

    return router


def _language(code: str | None, known: Collection[str]) -> str | None:
    """Return the language of a code of Kokoro-FastAPI; ``None`` detects it from the text.

    Raises:
        BadRequestError: the model does not speak it.
    """
    if not code:
        return None
    base = code.lower().partition("-")[0]
    language = find_language(_LETTERS.get(base, code), known)
    if language is None:
        letters = {name: [key for key, code in _LETTERS.items() if code == name] for name in known}
        names = (language_choice([*letters[name], name]) for name in known)
        raise BadRequestError(f"lang_code must be {', or '.join(names)}", param="lang_code")
    return language


class CaptionedSound(RestBody):
    """Objects of JSON with sound in base64 and words: one at the end, or one a line."""

    def __init__(
        self, service: SpeechService, request: SpeechRequest, format: Format, *, is_streamed: bool
    ) -> None:
        super().__init__(service, is_streamed=is_streamed)
        self.media_type = _LINES if is_streamed else "application/json"
        self._request, self._format = request, format
        self._words: list[Word] = []  # known since the last sound

    def part(self, piece: EncodedPiece) -> bytes:
        """Return the line of a piece that has sound, or the whole object."""
        if not self._is_streamed:
            return self._object(piece.data, piece.words if self._request.word_times else None)
        self._words += piece.words
        return self._line(piece.data) if piece.data else b""

    def end(self, speech: Speech) -> bytes:
        """Return a line with the words that are left."""
        return self._line(b"") if self._words else b""

    def _line(self, data: bytes) -> bytes:
        words, self._words = self._words, []
        return self._object(data, words) + b"\n"

    def _object(self, data: bytes, words: Iterable[Word] | None) -> bytes:
        timestamps = None
        if words is not None:
            timestamps = [
                WordTimestamp(word=word.word, start_time=word.start, end_time=word.end)
                for word in timed_words(words, self._request.speed)
            ]
        captioned = CaptionedSpeech(
            audio=to_base64(data),
            audio_format=_MEDIA_TYPES.get(self._format, self._format.media_type),
            timestamps=timestamps,
        )
        return captioned.model_dump_json().encode()
