"""Bodies of JSON, checked by pydantic, for interfaces without FastAPI's routes."""

from __future__ import annotations

import json
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from .errors import BadRequestError
from .http_layers import FORM
from .live.messages import decode

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request, model: type[M]) -> M:
    """Return the checked body of a request.

    Raises:
        BadRequestError: it is no JSON object, or a field is wrong.
    """
    if request.headers.get("content-type", "").lower().startswith(FORM):
        raise BadRequestError("the body must be a JSON object, and not a form")
    try:
        text = (await request.body()).decode()
    except UnicodeDecodeError:
        raise BadRequestError("the body must be JSON in UTF-8") from None
    fields = decode(text)
    if "\\u" in text:
        try:
            json.dumps(fields, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadRequestError("the body holds half of a surrogate pair, no text") from None
    return validated(fields, model)


def validated(fields: object, model: type[M]) -> M:
    """Return the model of these fields.

    Raises:
        BadRequestError: a field is wrong; the first one is named.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or None
        message = f"{name or 'the body'}: {first['msg']}"
        raise BadRequestError(message, param=name) from error
