"""Requests of clients, the places that they ask, and the answers that they hear."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

PATIENCE = 300.0
"""Seconds that a client waits for the end of an answer."""

_REFUSALS = re.compile(
    "server_overloaded|rate_limit|deadline_exceeded|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED"
    "|too many (?:requests|scripts)|try again"
)


@dataclass(frozen=True)
class Place:
    """The place of a server on this machine.

    Attributes:
        http, grpc, wyoming, mcp: its ports; 0 where it has no such interface.
    """

    http: int = 0
    grpc: int = 0
    wyoming: int = 0
    mcp: int = 0

    @property
    def url(self) -> str:
        """The address of its HTTP interface."""
        return f"http://127.0.0.1:{self.http}"


@dataclass(frozen=True)
class Request:
    """A text with all that fixes its sound.

    Attributes:
        way: the name of the protocol and the form in which it is asked.
        text, seed, voice: of the speech.
    """

    way: str
    text: str
    seed: int
    voice: str

    def __str__(self) -> str:
        return f"{self.way}: voice {self.voice}, seed {self.seed}, {self.text!r}"


@dataclass
class Heard:
    """The sound of an answer as it arrives.

    Attributes:
        sound: all bytes up to now.
    """

    sound: bytearray = field(default_factory=bytearray)

    def hear(self, part: bytes) -> None:
        """Take the next part."""
        self.sound += part


class UnansweredError(Exception):
    """The server told an error in place of the sound.

    Args:
        said: what it told.
        status: of HTTP; 0 of other protocols.
    """

    def __init__(self, said: str, status: int = 0) -> None:
        super().__init__(f"{status or ''} {said}".strip()[:300])
        self._said, self._status = said, status

    @property
    def is_refusal(self) -> bool:
        """Return whether the server refused for want of room or time."""
        return self._status == 429 or _REFUSALS.search(self._said) is not None


Ask = Callable[[Place, Request, Heard], Awaitable[None]]
"""Asks, and reads the answer to its end; raises an error where the sound is not whole."""


@dataclass(frozen=True)
class Way:
    """A protocol, and the form in which it is asked.

    Attributes:
        door: the field of :class:`Place` with the port that it connects to.
        ask: how it is asked.
    """

    door: str
    ask: Ask
