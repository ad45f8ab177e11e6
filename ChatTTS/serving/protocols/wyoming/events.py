"""Read the events of a client, within limits that the library's own reader does not have."""

from __future__ import annotations

import asyncio
from typing import Any

from wyoming.event import Event

from ....utils.untrusted import parse_json
from ...errors import BadRequestError, RequestTooLargeError, SlowRequestError


async def read_event(reader: asyncio.StreamReader, most: int, seconds: float) -> Event | None:
    """Return the next event; ``None`` at the end of the connection.

    An event is a line of JSON, more JSON of ``data_length`` bytes, and ``payload_length`` bytes,
    which no event has that this server knows; they are dropped.

    Args:
        reader: of the connection; its own limit bounds the line.
        most: bytes of the data, and of the payload.
        seconds: time for an event to come, once it has begun.

    Raises:
        SlowRequestError: it did not come in time.
        BadRequestError: it is no event.
        RequestTooLargeError: a part of it is too long.
    """
    begun = await reader.read(1)
    try:
        return await asyncio.wait_for(_event(reader, most, begun), seconds) if begun else None
    except asyncio.TimeoutError:
        raise SlowRequestError(f"an event did not arrive within {seconds:g} s") from None


async def _event(reader: asyncio.StreamReader, most: int, begun: bytes) -> Event | None:
    """Return the event whose first byte has come."""
    try:
        line = begun if begun == b"\n" else begun + await reader.readline()
        if not line.endswith(b"\n"):
            return None
        head = _object(line)
        data = head.get("data") or {}
        more = await _read(reader, head, "data_length", most)
        await _read(reader, head, "payload_length", most)
    except asyncio.IncompleteReadError:
        return None
    except ValueError as error:  # of the reader: the line is longer than its limit
        raise RequestTooLargeError("a line of an event is too long") from error
    if more:
        data = {**data, **_object(more)} if isinstance(data, dict) else None
    kind = head.get("type")
    if not isinstance(kind, str) or not isinstance(data, dict):
        raise BadRequestError("an event needs a type, a string, and its data must be an object")
    return Event(type=kind, data=data)


async def _read(reader: asyncio.StreamReader, head: dict[str, Any], name: str, most: int) -> bytes:
    length = head.get(name) or 0
    if type(length) is not int or length < 0:
        raise BadRequestError(f"{name} must be a number of bytes", param=name)
    if length > most:
        raise RequestTooLargeError(f"{name} is {length}; the limit is {most}", param=name)
    return await reader.readexactly(length)


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = parse_json(data.decode("utf-8"))
    except ValueError as error:
        raise BadRequestError("an event must be one line of JSON in UTF-8") from error
    if not isinstance(value, dict):
        raise BadRequestError("an event must be a JSON object")
    return value
