"""Messages through pipes: a length, and that number of bytes."""

from __future__ import annotations

from typing import IO

_LENGTH_BYTES = 8
# Comes before the first message: what a process printed until then is none.
_MARK = b"\n\0messages of a rank\0\n"
# A longer one is no message, but something else that was written into the pipe.
_MAX_BYTES = 1 << 40


def write_mark(pipe: IO[bytes]) -> None:
    """Say that messages follow."""
    pipe.write(_MARK)
    pipe.flush()


def read_mark(pipe: IO[bytes]) -> bytes | None:
    """Wait for the mark; return what came before, or ``None`` if the other end is closed."""
    found = bytearray()
    while not found.endswith(_MARK):
        try:
            byte = pipe.read(1)
        except (OSError, ValueError):
            return None
        if not byte:
            return None
        found += byte
    return bytes(found[: -len(_MARK)])


def write_message(pipe: IO[bytes], message: bytes) -> None:
    """Write a message.

    Raises:
        OSError: the other end is closed.
    """
    pipe.write(len(message).to_bytes(_LENGTH_BYTES, "little"))
    pipe.write(message)
    pipe.flush()


def read_message(pipe: IO[bytes]) -> bytes | None:
    """Wait for a message; return ``None`` if the other end is closed, or writes no messages."""
    try:
        length = pipe.read(_LENGTH_BYTES)
        count = int.from_bytes(length, "little")
        if count > _MAX_BYTES:
            return None
        message = pipe.read(count) if len(length) == _LENGTH_BYTES else b""
    except (OSError, ValueError, MemoryError):
        return None
    return message if len(message) == count and length else None
