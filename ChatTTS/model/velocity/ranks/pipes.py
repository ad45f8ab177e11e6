"""Messages through pipes: a length, and so many bytes."""

from __future__ import annotations

from typing import IO

_LENGTH_BYTES = 8


def write_message(pipe: IO[bytes], message: bytes) -> None:
    """Write a message.

    Raises:
        OSError: the other end is closed.
    """
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(message)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> bytes | None:
    """Wait for a message; return ``None`` if the other end is closed."""
    try:
        length = pipe.read(_LENGTH_BYTES)
        count = int.from_bytes(length, "little")
        message = pipe.read(count) if len(length) == _LENGTH_BYTES else b""
    except (OSError, ValueError):
        return None
    return message if len(message) == count and length else None
