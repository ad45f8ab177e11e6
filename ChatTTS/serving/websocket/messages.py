"""What clients say, read and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..errors import BadRequestError

_LONGEST_ID = 64
_MOST_SAMPLES = 2**53


@dataclass(frozen=True)
class Auth:
    """``session.auth``: the key, where it is not in the request's head."""

    api_key: str


@dataclass(frozen=True)
class Configure:
    """``session.config``: settings by name; those that are not named stay."""

    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Append:
    """``input.text``: more text."""

    text: str


@dataclass(frozen=True)
class Flush:
    """``input.flush``: speak what is here, it goes on later."""


@dataclass(frozen=True)
class Cancel:
    """``input.cancel``: be silent.

    Attributes:
        played_samples: of the run, at the rate of ``audio.start``, that were heard; ``None``
            takes those that were sent.
    """

    played_samples: int | None


@dataclass(frozen=True)
class Done:
    """``input.done``: no more text comes in this context."""


@dataclass(frozen=True)
class Close:
    """``session.close``: no more text comes on this socket."""


Message: TypeAlias = Auth | Configure | Append | Flush | Cancel | Done | Close


@dataclass(frozen=True)
class Envelope:
    """A message that is JSON, whatever it says.

    Attributes:
        fields: all of it.
        context_id: what it is about; ``None`` is the default context.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def context_id(self) -> str | None:
        """See above; ``None`` as well where it cannot be read."""
        name = self.fields.get("context_id")
        return name if isinstance(name, str) and _is_id(name) else None


def decode(data: str) -> Envelope:
    """A message's text as JSON.

    Raises:
        BadRequestError: it is no JSON object.
    """
    try:
        fields = json.loads(data, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise BadRequestError('a message must be JSON, such as {"type": "input.flush"}') from None
    if not isinstance(fields, dict):
        raise BadRequestError("a message must be a JSON object with a type")
    return Envelope(fields)


def parse(envelope: Envelope) -> Message:
    """What a message says.

    Raises:
        BadRequestError: an unknown type, a field that it does not have, or a wrong value.
    """
    fields = dict(envelope.fields)
    kind = fields.pop("type", None)
    name = fields.pop("context_id", None)
    if name is not None and not (isinstance(name, str) and _is_id(name)):
        raise BadRequestError(
            f"context_id must be a string of 1 to {_LONGEST_ID} characters", param="context_id"
        )
    message: Message
    if kind == "session.auth":
        message = Auth(_string(fields, "api_key"))
    elif kind == "session.config":
        return Configure(fields)
    elif kind == "input.text":
        message = Append(_string(fields, "text"))
    elif kind == "input.flush":
        message = Flush()
    elif kind == "input.cancel":
        message = Cancel(_count(fields, "played_samples"))
    elif kind == "input.done":
        message = Done()
    elif kind == "session.close":
        message = Close()
    else:
        raise BadRequestError(
            "type must be session.config, input.text, input.flush, input.cancel, input.done or "
            "session.close",
            param="type",
        )
    for unknown in fields:
        raise BadRequestError(f"{kind} has no field {unknown[:_LONGEST_ID]!r}", param=unknown)
    return message


def is_text(value: object) -> bool:
    """Whether it is a string that can be written in UTF-8; JSON may hold half characters."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _string(fields: dict[str, Any], name: str) -> str:
    value = fields.pop(name, None)
    if not is_text(value):
        raise BadRequestError(f"{name} must be a string", param=name)
    return str(value)


def _count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.pop(name, None)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not value >= 0:
        raise BadRequestError(f"{name} must be a number, 0 or more", param=name)
    return int(min(value, _MOST_SAMPLES))


def _is_id(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_ID and is_text(name)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
