"""JSON and numbers of clients; bodies that pydantic checks, for routes that are not FastAPI's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from starlette.requests import Request

from ...config.request_fields import misnamed
from ..errors import BadRequestError
from .middleware import FORM

M = TypeVar("M", bound=BaseModel)


_NULL = {"type": "null"}
# What of a property's schema is said of all its values.
_ABOUT = ("default", "description", "examples", "title")


class Fields(BaseModel):
    """Base of the bodies of requests: a field that is ``null`` counts as left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Any, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema, in which every field that may be left out may be ``null``."""
        schema = handler(core_schema)
        described = handler.resolve_ref_schema(schema)
        required = described.get("required", ())
        for name, kind in described.get("properties", {}).items():
            if name not in required and _NULL not in kind.get("anyOf", ()):
                values = {key: kind.pop(key) for key in [*kind] if key not in _ABOUT}
                kind["anyOf"] = [values, _NULL]
        return schema


def from_json(data: str | bytes, what: str, *, param: str | None = None) -> Any:
    """Return the value of a client's text of JSON, not yet checked.

    Args:
        what: names the text in the error.
        param: the field of the request that it is.

    Raises:
        BadRequestError: it is no JSON.
    """
    try:
        # Of bytes, json.loads would guess the encoding, and take unpaired surrogates.
        text = data.decode() if isinstance(data, bytes) else data
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{what} is not valid JSON", param=param) from error


def json_object(data: str | bytes, what: str = "the body") -> dict[str, Any]:
    """Return the fields of a client's text of JSON; raises as :func:`from_json`, and for others."""
    fields = from_json(data, what)
    if not isinstance(fields, dict):
        raise BadRequestError(f"{what} must be a JSON object")
    return fields


def whole_number(text: str | None, digits: int = 9) -> int | None:
    """Return the whole number that a field of a query is; ``None`` if it is none of these digits.

    Args:
        digits: the most that it may have.
    """
    if text is None or not (text.isascii() and text.isdigit() and len(text) <= digits):
        return None
    return int(text)


async def read_body(request: Request, model: type[M]) -> M:
    """Return the checked body of a request.

    Raises:
        BadRequestError: it is no JSON object, or a field is wrong.
    """
    if request.headers.get("content-type", "").lower().startswith(FORM):
        raise BadRequestError("the body must be a JSON object, and not a form")
    body = await request.body()
    fields = json_object(body)
    if b"\\u" in body:
        try:
            json.dumps(fields, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadRequestError("the body contains an unpaired surrogate") from None
    return validated(fields, model)


def validated(fields: object, model: type[M]) -> M:
    """Return the model of these fields.

    Raises:
        BadRequestError: a field is wrong; the first one is named.
    """
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise bad_field(error) from error


def bad_field(error: ValidationError) -> BadRequestError:
    """Return the error of the first wrong field."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"]) or None
    return BadRequestError(f"{name or 'the body'}: {reason(first)}", param=name)


def reason(error: Mapping[str, Any]) -> str:
    """Return why a field is wrong, of one error that pydantic reports.

    Of a missing field it names the unknown field that was given in its place.
    """
    message, given = str(error["msg"]), error.get("input")
    if error["type"] == "missing" and isinstance(given, Mapping):
        return misnamed(str(error["loc"][-1]), given) or message
    return message


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")
