"""The bytes between the front and the model's process: frames of JSON and samples.

A frame is the length of its JSON and that of its samples, as two little-endian numbers of 32 bits,
then the JSON, then the samples as float32. The JSON is a list: the number of the call, the name of
the message's class, its fields.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import numpy as np

from ....audio.samples import SAMPLE_RATE, Samples
from ....pipeline.results import Piece
from ...requests.jobs import RefineJob, SpeechJob
from ..messages import Alive, Ended, Failed, Opened
from ..options import LoadOptions
from ..pool import Facts
from .plain_data import WireError, from_plain, to_plain

CONNECTION = 0
"""The number in frames that belong to no call."""
BEAT_SECONDS = 1.0
"""Seconds between two messages by which the process says that it runs."""

AHEAD_SAMPLES = 10 * SAMPLE_RATE
"""Samples of a stream that are sent before the caller takes any, and the rest of a piece."""

_LENGTHS = struct.Struct("<II")
_MOST_BYTES = 1 << 30  # longer frames are no messages


@dataclass(frozen=True)
class Start:
    """The model that the process loads, in the first message to it.

    Attributes:
        load: the model.
        name: of the process, in its answers.
        log_form: ``text`` or ``json``.
        log_level: of this package's records.
    """

    load: LoadOptions
    name: str
    log_form: str
    log_level: int


@dataclass(frozen=True)
class Recording:
    """A recording to encode.

    Attributes:
        samples: float32 (n,).
        sample_rate: in Hz.
    """

    samples: Samples
    sample_rate: int


@dataclass(frozen=True)
class Taken:
    """The caller took samples of a stream, and so makes room for others.

    Attributes:
        count: of the samples, since the last message of this kind.
    """

    count: int


@dataclass(frozen=True)
class Leave:
    """The caller does not wait for the answer any more."""


@dataclass(frozen=True)
class Answer:
    """The answer to a ``RefineJob`` or a ``Recording``."""

    text: str


Sent: TypeAlias = (
    Start
    | SpeechJob
    | RefineJob
    | Recording
    | Taken
    | Leave
    | Facts
    | Opened
    | Piece
    | Alive
    | Ended
    | Failed
    | Answer
)

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Sent)}


def encode(call: int, message: Sent) -> bytes:
    """Return the frame of a message of a call."""
    header = json.dumps([call, type(message).__name__, to_plain(message)]).encode("ascii")
    body = b""
    if isinstance(message, Piece | Recording):
        body = np.asarray(message.samples, dtype="<f4").tobytes()
    return _LENGTHS.pack(len(header), len(body)) + header + body


class Decoder:
    """Takes bytes as they come, and gives the messages that they complete."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._needed = _LENGTHS.size

    @property
    def missing(self) -> int:
        """The bytes without which no further message is whole; more of them may be needed."""
        return self._needed - len(self._bytes)

    def feed(self, data: bytes) -> Iterator[tuple[int, Sent]]:
        """Yield each whole message, with the number of its call.

        Raises:
            WireError: the bytes are no messages.
        """
        self._bytes += data
        if len(self._bytes) < self._needed:
            return
        received, place = bytes(self._bytes), 0
        self._bytes.clear()
        while True:
            body = place + _LENGTHS.size
            if len(received) < body:
                self._needed = _LENGTHS.size
                break
            lengths = _LENGTHS.unpack_from(received, place)
            if max(lengths) > _MOST_BYTES:
                raise WireError(f"a frame of {max(lengths)} bytes is no message")
            end = body + sum(lengths)
            if len(received) < end:
                self._needed = end - place
                break
            yield _message(received[body : body + lengths[0]], received, body + lengths[0], end)
            place = end
        self._bytes += received[place:]


def receive(end: socket.socket) -> Sent | None:
    """Return the next message of a socket, and read no byte behind it; blocks.

    Returns:
        ``None`` if the socket is closed before its end.

    Raises:
        WireError: the bytes are no message.
    """
    decoder = Decoder()
    while data := end.recv(decoder.missing, socket.MSG_WAITALL):
        for _, message in decoder.feed(data):
            return message
    return None


def _message(header: bytes, received: bytes, start: int, end: int) -> tuple[int, Sent]:
    try:
        call, name, plain = json.loads(header)
        kind = _KINDS[name]
    except (ValueError, TypeError, KeyError) as error:
        raise WireError(f"a frame has no message: {error}") from error
    if type(call) is not int:
        raise WireError("a frame names no call")
    samples = {}
    if kind in (Piece, Recording):
        if (end - start) % 4:
            raise WireError("samples have four bytes each")
        # A copy, so that a piece that is kept does not keep what came with it.
        samples["samples"] = np.frombuffer(received[start:end], dtype="<f4")
    elif end > start:
        raise WireError(f"a {name} has no samples")
    return call, from_plain(kind, plain, **samples)
