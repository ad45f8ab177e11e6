"""Parse and check the messages of clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from ..errors import BadRequestError

_MAX_ID_CHARACTERS = 64
_MAX_SAMPLES = 2**53


@dataclass(frozen=True)
class Auth:
    """``session.auth``: the API key, where neither header nor query has it."""

    api_key: str


@dataclass(frozen=True)
class Configure:
    """``session.config``: settings by name; settings that are not named keep their values."""

    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Append:
    """``input.text``: more text."""

    text: str


@dataclass(frozen=True)
class Flush:
    """``input.flush``: speak all text that has come; more text may follow."""


@dataclass(frozen=True)
class Cancel:
    """``input.cancel``: stop speaking.

    Attributes:
        played_samples: number of the run's samples that the client has played, at the rate of
            ``audio.start``; ``None`` means all that were sent.
    """

    played_samples: int | None


@dataclass(frozen=True)
class Done:
    """``input.done``: no more text comes in this context."""


@dataclass(frozen=True)
class Close:
    """``session.close``: no more text comes on this socket."""


Message: TypeAlias = Auth | Configure | Append | Flush | Cancel | Done | Close


def decode(data: str) -> dict[str, Any]:
    """Return the fields of a message's text, not yet checked.

    Raises:
        BadRequestError: it is not a JSON object.
    """
    try:
        fields = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadRequestError('a message must be JSON, such as {"type": "input.flush"}') from None
    if not isinstance(fields, dict):
        raise BadRequestError("a message must be a JSON object with a type")
    return fields


def context_of(fields: Mapping[str, Any]) -> str | None:
    """Return the context of a message; ``None`` is the default one, also for an invalid id."""
    name = fields.get("context_id")
    return name if _is_id(name) else None


def parse(message_fields: Mapping[str, Any]) -> Message:
    """Return the checked message of these fields.

    Raises:
        BadRequestError: an unknown type, an unknown field, or a wrong value.
    """
    fields = dict(message_fields)
    kind = fields.pop("type", None)
    name = fields.pop("context_id", None)
    if name is not None and not _is_id(name):
        raise BadRequestError(
            f"context_id must be a string of 1 to {_MAX_ID_CHARACTERS} characters",
            param="context_id",
        )
    if kind == "session.config":
        return Configure(fields)
    if not isinstance(kind, str) or kind not in _MESSAGES:
        raise BadRequestError(
            "type must be session.config, input.text, input.flush, input.cancel, input.done or "
            "session.close",
            param="type",
        )
    message = _MESSAGES[kind](fields)
    for unknown in fields:
        raise BadRequestError(
            f"{kind} has no field {unknown[:_MAX_ID_CHARACTERS]!r}", param=unknown
        )
    return message


def is_text(value: object) -> TypeGuard[str]:
    """Return whether it is a string that UTF-8 can encode; JSON may hold lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _string(fields: dict[str, Any], name: str) -> str:
    value: object = fields.pop(name, None)
    if not is_text(value):
        raise BadRequestError(f"{name} must be a string", param=name)
    return value


def _count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.pop(name, None)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value >= 0:
        raise BadRequestError(f"{name} must be a number, 0 or more", param=name)
    return int(min(value, _MAX_SAMPLES))


def _is_id(name: object) -> TypeGuard[str]:
    return isinstance(name, str) and 0 < len(name) <= _MAX_ID_CHARACTERS and is_text(name)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


# Each takes its fields out of those of the message. session.config takes any.
_MESSAGES: Mapping[str, Callable[[dict[str, Any]], Message]] = {
    "session.auth": lambda fields: Auth(_string(fields, "api_key")),
    "input.text": lambda fields: Append(_string(fields, "text")),
    "input.flush": lambda _: Flush(),
    "input.cancel": lambda fields: Cancel(_count(fields, "played_samples")),
    "input.done": lambda _: Done(),
    "session.close": lambda _: Close(),
}
