"""The fields of messages from clients that are not trusted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from ...config.request_fields import misnamed
from ..errors import BadRequestError

MAX_ID_CHARACTERS = 64
"""Longest name of a context."""


def is_text(value: object) -> TypeGuard[str]:
    """Return whether it is a string that UTF-8 can encode; JSON may hold lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def text_of(fields: Mapping[str, Any], name: str = "text") -> str:
    """Return a field of a message.

    Raises:
        BadRequestError: it is missing, or no text.
    """
    value = fields.get(name)
    if not is_text(value):
        wrong_name = None if name in fields else misnamed(name, fields)
        raise BadRequestError(wrong_name or f"{name} must be a string", param=name)
    return value


def checked_id(name: object) -> str:
    """Return the name of a context; raise BadRequestError if it cannot be one."""
    if not is_id(name):
        raise BadRequestError(
            f"context_id must be a string of 1 to {MAX_ID_CHARACTERS} characters",
            param="context_id",
        )
    return name


def is_id(name: object) -> TypeGuard[str]:
    """Return whether it can name a context."""
    return isinstance(name, str) and 0 < len(name) <= MAX_ID_CHARACTERS and is_text(name)
