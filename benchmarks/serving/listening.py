"""What a listener hears of an answer: when sound begins, and where it stops for a while."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

RATE = 24_000
BYTES_PER_SECOND = 2 * RATE
# -50 dB of full scale: what is quieter is silence.
AUDIBLE = round(32768 * 10 ** (-50 / 20))


@dataclass(frozen=True)
class Gaps:
    """Pauses of a player that the answer does not have.

    Attributes:
        count: their number.
        seconds: their length together.
    """

    count: int = 0
    seconds: float = 0.0


@dataclass
class Listening:
    """Collects an answer of signed 16-bit samples as it arrives.

    Attributes:
        begin: when the request was sent, by ``time.monotonic``.
        arrivals: seconds after that, and the number of bytes, of each part.
        error: why the answer is not whole; ``None`` if it is.
        retry_after: the header of a refusal.
    """

    begin: float = field(default_factory=time.monotonic)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    error: str | None = None
    retry_after: str | None = None
    _sound: bytearray = field(default_factory=bytearray)

    def hear(self, part: bytes) -> None:
        """Take the next part, which has just arrived."""
        if part:
            self.arrivals.append((time.monotonic() - self.begin, len(part)))
            self._sound += part

    @property
    def samples(self) -> NDArray[np.int16]:
        """The samples that came."""
        whole = bytes(self._sound[: len(self._sound) // 2 * 2])
        return np.frombuffer(whole, dtype="<i2").astype(np.int16)

    @property
    def seconds(self) -> float:
        """The length of the sound."""
        return len(self._sound) / BYTES_PER_SECOND

    @property
    def digest(self) -> str | None:
        """A digest of all samples; ``None`` if the answer is not whole."""
        whole = self.error is None and self._sound
        return hashlib.sha256(self._sound).hexdigest() if whole else None

    @property
    def first_byte(self) -> float | None:
        """When the first byte of sound came, in seconds after the request."""
        return self.arrivals[0][0] if self.arrivals else None

    @property
    def audible(self) -> float | None:
        """When a player that starts with the first byte gives the first audible sample.

        It is later than the first byte where the sound begins with silence.
        """
        loud = np.flatnonzero(np.abs(self.samples.astype(np.int32)) >= AUDIBLE)
        if not len(loud):
            return None
        place = 2 * int(loud[0])
        end = 0
        for moment, size in self.arrivals:
            end += size
            if place < end:
                return max(moment, self.arrivals[0][0] + place / BYTES_PER_SECOND)
        return None

    def gaps(self, buffer: float = 0.0) -> Gaps:
        """Return the pauses of a player that starts once it has ``buffer`` seconds of sound."""
        total = sum(size for _, size in self.arrivals)
        wanted, had, played_until = min(buffer * BYTES_PER_SECOND, total), 0, 0.0
        count, paused = 0, 0.0
        for moment, size in self.arrivals:
            if had < wanted or not had:
                had += size
                played_until = moment + had / BYTES_PER_SECOND
                continue
            if moment > played_until:
                count, paused = count + 1, paused + moment - played_until
                played_until = moment
            had += size
            played_until += size / BYTES_PER_SECOND
        return Gaps(count, paused)
