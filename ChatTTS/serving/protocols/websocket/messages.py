"""Parse and check the messages of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...errors import BadRequestError
from ...live.messages import MAX_ID_CHARACTERS, checked_id, is_id, text_of

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


def context_of(fields: Mapping[str, Any]) -> str | None:
    """Return the context of a message; ``None`` is the default one, also for an invalid id."""
    name = fields.get("context_id")
    return name if is_id(name) else None


def parse(message_fields: Mapping[str, Any]) -> Message:
    """Return the checked message of these fields.

    Raises:
        BadRequestError: an unknown type, an unknown field, or a wrong value.
    """
    fields = dict(message_fields)
    kind = fields.pop("type", None)
    name = fields.pop("context_id", None)
    if name is not None:
        checked_id(name)
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
        raise BadRequestError(f"{kind} has no field {unknown[:MAX_ID_CHARACTERS]!r}", param=unknown)
    return message


def _string(fields: dict[str, Any], name: str) -> str:
    value = text_of(fields, name)
    del fields[name]
    return value


def _count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.pop(name, None)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value >= 0:
        raise BadRequestError(f"{name} must be a number, 0 or more", param=name)
    return int(min(value, _MAX_SAMPLES))


# Each takes its fields out of those of the message. session.config takes any.
_MESSAGES: Mapping[str, Callable[[dict[str, Any]], Message]] = {
    "session.auth": lambda fields: Auth(_string(fields, "api_key")),
    "input.text": lambda fields: Append(_string(fields, "text")),
    "input.flush": lambda _: Flush(),
    "input.cancel": lambda fields: Cancel(_count(fields, "played_samples")),
    "input.done": lambda _: Done(),
    "session.close": lambda _: Close(),
}
