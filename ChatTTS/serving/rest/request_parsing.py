"""From the fields of a body to what the service is asked for."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import Request

from ..encoding import Format
from ..errors import BadRequestError
from ..recordings import sample_prompt
from ..requests import Priority, SpeechRequest, new_seed
from ..service import SpeechService
from .errors import ModelNotFoundError
from .schemas import GenerationOptions, SpeechOptions
from .streaming import OutputOptions

MODELS = ("chattts", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
"""Names of the one model: its own, and those that programs for OpenAI's server use."""


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        client: see ``Authenticator``.
        request_id: of the HTTP request.
    """

    client: str
    request_id: str

    @classmethod
    def of(cls, request: Request) -> Caller:
        """As the middleware noted it."""
        return cls(request.state.client, request.state.request_id)


def check_model(name: str) -> None:
    """Raise ModelNotFoundError unless it is a name of the model."""
    if name not in MODELS:
        raise ModelNotFoundError(
            f"the model {name[:80]!r} does not exist; GET /v1/models lists all of them",
            param="model",
        )


async def speech_request(
    service: SpeechService, options: SpeechOptions, text: str, caller: Caller, **changes: Any
) -> SpeechRequest:
    """What to speak.

    Args:
        changes: fields that are decided already.

    Raises:
        ServingError: a field that cannot be used.
    """
    check_model(options.model)
    voice: dict[str, Any] = {"voice": options.voice_name}
    if options.ref_audio is not None:
        if not (options.ref_text or "").strip():
            raise BadRequestError(
                "ref_audio needs ref_text: what the recording says, word for word",
                param="ref_text",
            )
        data = await service.in_thread(partial(_from_base64, options.ref_audio, "ref_audio"))
        sample = await sample_prompt(service, data, "ref_audio")
        voice = {"sample": sample, "transcript": options.ref_text}
    fields = voice | generation_fields(options, caller) | changes
    return SpeechRequest(
        text,
        speed=options.speed,
        refine=options.refine,
        low_latency=options.low_latency,
        **fields,
    )


def generation_fields(options: GenerationOptions, caller: Caller) -> dict[str, Any]:
    """The fields that every kind of request has."""
    return {
        "seed": new_seed() if options.seed is None else options.seed,
        "is_seeded": options.seed is not None,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "language": options.language,
        "priority": Priority.parse(options.priority),
        "max_wait": options.max_wait,
        "client": caller.client,
        "request_id": caller.request_id,
    }


def output_options(options: SpeechOptions, **changes: Any) -> OutputOptions:
    """How to send it."""
    return OutputOptions(Format.parse(options.response_format), options.sample_rate, **changes)


def _from_base64(text: str, param: str) -> bytes:
    """The bytes of base64 text, or of a ``data:`` address with such text.

    Raises:
        BadRequestError: it is something else.
    """
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequestError(f"{param} is no base64", param=param) from error
