"""The reading of a request before it waits for its turn: its parts, the language of its voice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from ...text.documents import is_ssml
from ...text.emphasis import has_emphasis
from ...text.main_language import main_language
from ..errors import RequestTooLargeError
from ..requests.request import SpeechRequest, without_effect
from ..requests.segments import read_marked
from ..settings import Settings
from .voices import Voices

T = TypeVar("T")

# A document of SSML may have so many times the characters of a text.
_MARKUP = 8
# Longer texts are looked at in a thread, since that would block the event loop for too long.
_LONG_TEXT = 1000


class ReadingBackend(Protocol):
    """The parts of the service that reading a request uses.

    Attributes:
        settings: of the server.
        voices: finds voices by their names.
    """

    settings: Settings
    voices: Voices

    @property
    def gives_word_times(self) -> bool: ...

    async def in_parsing_thread(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``, called in the thread for long texts."""


async def with_segments(service: ReadingBackend, request: SpeechRequest) -> SpeechRequest:
    """Return the request with the text, segments and warnings of its SSML, if it is SSML.

    Raises:
        BadRequestError: it begins as SSML and cannot be read.
        RequestTooLargeError: it is too long.
    """
    if request.reads_ssml and not request.segments and is_ssml(request.text):
        length, most = len(request.text), service.settings.limits.characters * _MARKUP
        if length > most:
            message = f"the document has {length} characters; the limit is {most}"
            raise RequestTooLargeError(f"{message}: send it in parts", param="input")
        text, strict = request.text, request.strict
        marked = await service.in_parsing_thread(lambda: read_marked(text, strict=strict))
        request = replace(
            request, text=marked.text, segments=marked.segments, warnings=marked.warnings
        )
    if has_emphasis(request.text) and not service.gives_word_times:
        request = without_effect(request)
    return request


async def with_voice_language(service: ReadingBackend, request: SpeechRequest) -> SpeechRequest:
    """Return the request with the language that chooses its voice, where it names none.

    This is the language that the request names, else the one that it continues, else that of most
    words that no named voice speaks.
    """
    language = request.language or request.voice_language
    if language is None and service.voices.follow_language(request.voice):
        text = request.text
        if request.segments:
            text = "\n".join(each.text for each in request.segments if each.voice is None)
        text = text[: service.settings.limits.characters]  # a longer one is refused
        if len(text) > _LONG_TEXT:
            language = await service.in_parsing_thread(lambda: main_language(text))
        else:
            language = main_language(text)
    return replace(request, voice_language=language)
