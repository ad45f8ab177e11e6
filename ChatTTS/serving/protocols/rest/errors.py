"""Error responses in the format of OpenAI's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from ...errors import BadRequestError, NotFoundError, ServingError
from ...http import responses as answers
from ...http.bodies import reason

M = TypeVar("M", bound=BaseModel)
_NO_JSON = "the body is not valid JSON"


class ModelNotFoundError(ServingError):
    """A model that does not exist."""

    status, grpc, code = 404, "NOT_FOUND", "model_not_found"


class MethodError(ServingError):
    """A method that a path does not support."""

    status, grpc, code = 405, "UNIMPLEMENTED", "method_not_allowed"


class RangeError(ServingError):
    """A range of bytes that a file does not have.

    Args:
        size: of the file, in bytes.
    """

    status, grpc, code = 416, "OUT_OF_RANGE", "invalid_range"

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


def error_response(error: ServingError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response to a request that failed with ``error``."""
    size = {"Content-Range": f"bytes */{error.size}"} if isinstance(error, RangeError) else {}
    return answers.error_response(error, {**(headers or {}), **size})


def bad_fields(errors: Sequence[Mapping[str, Any]]) -> BadRequestError:
    """Return the error of the first invalid field that pydantic reports."""
    first = errors[0]
    place = tuple(first["loc"])
    if first["type"] == "json_invalid":
        return BadRequestError(_NO_JSON)
    if place[:1] in (("body",), ("query",), ("path",)):
        place = place[1:]
    # After the field's name come names of types that pydantic tried, which clients do not know.
    of_item = len(place) > 1 and isinstance(place[1], int)
    param = ".".join(str(part) for part in place[: 3 if of_item else 1]) or None
    if param is None:
        return BadRequestError(
            "the body must be a JSON object, sent with `Content-Type: application/json`"
        )
    return BadRequestError(f"{param}: {reason(first)}", param=param)


def validated(fields: object, model: type[M]) -> M:
    """Return the model of these fields, for a route that reads its body itself.

    Raises:
        BadRequestError: a field is wrong; the first one is named.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        raise bad_fields(found) from error


async def on_invalid(request: Request, error: Exception) -> JSONResponse:
    """Raise FastAPI's validation error as a BadRequestError, so that it is counted like others."""
    assert isinstance(error, RequestValidationError)
    raise bad_fields(error.errors()) from error


async def on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of the router, and leave it in ``request.state.refusal`` to be counted."""
    assert isinstance(error, HTTPException)
    request.state.refusal = refusal = _of_status(error, request)
    return error_response(refusal, error.headers)


def _of_status(error: HTTPException, request: Request) -> ServingError:
    if error.status_code == 404:
        return NotFoundError("there is nothing at this address; /openapi.json lists all addresses")
    if error.status_code == 405:
        return MethodError(f"{request.method} is not allowed at this address")
    if isinstance(error.__cause__, ValueError):  # of a body that is no UTF-8
        return BadRequestError(_NO_JSON)
    answer = BadRequestError(str(error.detail))
    answer.status = error.status_code
    return answer
