"""The FastAPI app of the HTTP interface."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from ....languages import LANGUAGES
from ....version import __version__
from ...http.auth import Authenticator
from ...http.middleware import AuthMiddleware, BodyMiddleware, ErrorMiddleware
from ...http.origins import OriginPolicy
from ...scripts import ScriptJobs
from ...settings import Limits, Settings
from ...speech.service import SpeechService
from .batch import batch_routes
from .captioned import captioned_routes
from .errors import error_response, on_http_error, on_invalid
from .head import HeadMiddleware
from .kokoro import kokoro_routes
from .models import model_routes
from .openai_speech import speech_routes
from .operations import PUBLIC, operation_routes
from .ovos import ovos_routes
from .page import is_page, page_routes
from .refine import refine_routes
from .request_parsing import INTERFACE
from .scripts import SCRIPTS, script_routes
from .tags import tag_routes
from .tts import plain_routes
from .typed import TypedAddressMiddleware
from .voices import voice_routes

# The other fields of a form with a recording are short.
_FORM_BYTES = 64 << 10
# A text may consist of commas, and a batch may contain a few of the longest texts.
_BASE_PARTS, _PARTS_PER_CHARACTER = 20_000, 4
# A long novel has a hundred thousand commas.
_SCRIPT_PARTS = 500_000
_ABOUT = """Text to speech. The routes under `/v1` are those of OpenAI's speech API, with more
fields; `/tts` is the plainest way. Live text goes over the WebSocket `/v1/audio/speech/stream`."""
_EXPOSED_HEADERS = (
    "x-request-id",
    "x-sample-rate",
    "x-seed",
    "x-finish-reason",
    "x-lexicon",
    "x-warnings",
    "x-faults",
    "x-retries",
    "x-model",
    "x-voice",
    "x-left-out",
    "x-silence",
    "ai-disclosure",
    "retry-after",
)


class _App(FastAPI):
    """An app whose schema names all languages that its model reads."""

    def __init__(self, service: SpeechService, **options: Any) -> None:
        super().__init__(**options)
        self._service = service

    def openapi(self) -> dict[str, Any]:
        """Return the schema; the bodies alone know the built-in languages."""
        schema = super().openapi()
        _name_languages(schema, [*self._service.model.languages])
        return schema


def _name_languages(schema: Any, codes: list[str]) -> None:
    """Put ``codes`` in place of the built-in languages, wherever a schema has them."""
    if isinstance(schema, dict):
        if schema.get("enum") == [*LANGUAGES]:
            schema["enum"] = codes
        schema = [*schema.values()]
    for each in schema if isinstance(schema, list) else ():
        _name_languages(each, codes)


def create_app(
    service: SpeechService,
    authenticator: Authenticator,
    settings: Settings,
    scripts: ScriptJobs | None = None,
) -> FastAPI:
    """Return the app that answers HTTP.

    Args:
        service: speaks the requests.
        authenticator: checks the API keys.
        settings: limits, allowed origins, and whether texts may be logged.
        scripts: the jobs of scripts; ``None`` leaves their routes out.
    """
    app = _App(
        service,
        title="ChatTTS",
        version=__version__,
        description=_ABOUT,
        docs_url=None,  # its scripts would come from other hosts
        redoc_url=None,
        exception_handlers={RequestValidationError: on_invalid, HTTPException: on_http_error},
    )
    # This only documents the key in the OpenAPI schema; the middleware checks it.
    keyed = [] if authenticator.is_open else [Depends(HTTPBearer(auto_error=False))]
    for router in (
        speech_routes(service),
        batch_routes(service),
        captioned_routes(service),
        refine_routes(service),
        plain_routes(service),
        ovos_routes(service),
        voice_routes(service),
        kokoro_routes(service),
        model_routes(),
        tag_routes(service),
    ):
        app.include_router(router, dependencies=keyed)
    if scripts is not None:
        app.include_router(script_routes(service, scripts), dependencies=keyed)
    app.include_router(operation_routes(service))
    app.include_router(page_routes())
    # The middleware that is added last is the outermost one.
    limits = settings.limits
    app.add_middleware(HeadMiddleware)
    app.add_middleware(
        BodyMiddleware,
        most=partial(_most_bytes, limits=limits),
        parts=partial(most_parts, limits=limits),
        seconds=limits.body_seconds,
        patience=limits.stalled_seconds,
    )
    origins = OriginPolicy(settings)
    app.add_middleware(
        AuthMiddleware, authenticator=authenticator, is_public=_is_public, origins=origins
    )
    if authenticator.is_open:  # with keys, the address line is of no use
        app.add_middleware(TypedAddressMiddleware, origins=origins)
    app.add_middleware(
        ErrorMiddleware,
        metrics=service.metrics,
        interface=INTERFACE,
        error_response=error_response,
        with_text=settings.log_texts,
    )
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            # OpenAI's client for browsers sends a dozen headers of its own, more in each version.
            allow_headers=["*"],
            expose_headers=list(_EXPOSED_HEADERS),
        )
    return app


def _is_public(path: str) -> bool:
    return path in PUBLIC or is_page(path)


def most_parts(path: str, limits: Limits) -> int:
    """Return the maximum number of commas and brackets in the body of a request to ``path``."""
    if path == SCRIPTS:
        return _SCRIPT_PARTS
    return _BASE_PARTS + _PARTS_PER_CHARACTER * limits.characters


def _most_bytes(path: str, limits: Limits) -> int:
    """Return the maximum size of the body of a request to ``path``."""
    if path == SCRIPTS:
        return limits.script_bytes + limits.message_bytes
    if path == "/v1/audio/voices":
        return limits.upload_bytes + _FORM_BYTES
    if path.startswith("/v1/audio/speech"):
        return limits.message_bytes + limits.upload_bytes * 4 // 3  # base64
    return limits.message_bytes
