"""Messages of JSON from clients that are not trusted."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from ..errors import BadRequestError

MAX_ID_CHARACTERS = 64
"""Longest name of a context."""


def decode(data: str) -> dict[str, Any]:
    """Return the fields of a message's text, not yet checked.

    Raises:
        BadRequestError: it is not a JSON object.
    """
    try:
        fields = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadRequestError("a message must be valid JSON") from None
    if not isinstance(fields, dict):
        raise BadRequestError("a message must be a JSON object")
    return fields


def is_text(value: object) -> TypeGuard[str]:
    """Return whether it is a string that UTF-8 can encode; JSON may hold lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_id(name: object) -> TypeGuard[str]:
    """Return whether it can name a context."""
    return isinstance(name, str) and 0 < len(name) <= MAX_ID_CHARACTERS and is_text(name)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")
