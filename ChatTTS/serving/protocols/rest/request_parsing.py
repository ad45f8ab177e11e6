"""Request parsing: from the fields of a body to a ``SpeechRequest``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import Request

from ...encoding import Format
from ...encoding.base64_blocks import from_base64
from ...errors import BadRequestError
from ...requests.request import SpeechRequest
from ...speech.recordings import sample_prompt
from ...speech.service import SpeechService
from .body_schemas import SpeechBody, SpeechOptions
from .streaming import OutputOptions

INTERFACE = "rest"
"""The name of this interface in logs."""


@dataclass(frozen=True)
class Caller:
    """The origin of a request.

    Attributes:
        client: name of the client; see ``Authenticator``.
        request_id: id of the HTTP request.
    """

    client: str
    request_id: str

    @classmethod
    def of(cls, request: Request) -> Caller:
        """Return what the middleware noted."""
        return cls(request.state.client, request.state.request_id)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of ``SpeechRequest`` that name the caller."""
        return {
            "client": self.client,
            "request_id": self.request_id,
            "interface": INTERFACE,
        }


async def speech_request(
    service: SpeechService, body: SpeechBody, caller: Caller, *, is_whole: bool, **changes: Any
) -> SpeechRequest:
    """Return the request to speak the text of ``body``.

    Args:
        is_whole: whether nothing is sent before all is spoken.
        changes: fields of ``SpeechRequest`` that replace those of ``body``.

    Raises:
        ServingError: a field is invalid.
    """
    given = body.request_fields()
    voice: dict[str, Any] = {}
    if body.ref_audio is not None:
        if not (body.ref_text or "").strip():
            raise BadRequestError(
                "ref_audio needs ref_text: the words of the recording, verbatim",
                param="ref_text",
            )
        data = await service.in_parsing_thread(partial(_from_base64, body.ref_audio))
        sample = await sample_prompt(service, data, "ref_audio")
        voice = {"voice": None, "sample": sample, "transcript": body.ref_text}
    others = {
        "guard": service.guard_of(given.guard, is_whole=is_whole),
        "may_be_silent": True,
        **caller.fields,
    }
    return SpeechRequest.of(body.input, given, **others | voice | changes)


def output_options(options: SpeechOptions, **changes: Any) -> OutputOptions:
    """Return how to send the speech."""
    return OutputOptions(Format.parse(options.response_format), options.sample_rate, **changes)


def _from_base64(text: str) -> bytes:
    """Return the bytes of a ``ref_audio``: base64 text, or a ``data:`` URL with such text.

    Raises:
        BadRequestError: the text is not base64.
    """
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return from_base64(text)
    except ValueError as error:
        raise BadRequestError("ref_audio is not valid base64", param="ref_audio") from error
