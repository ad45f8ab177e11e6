"""When the next piece of an utterance is decoded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

SAMPLE_RATE = 24_000
FRAMES_PER_SECOND = 46.875  # each is 512 samples


class Schedule(Protocol):
    """Decides when to decode while more frames are to come; at the end of an utterance all is."""

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """How long to wait before decoding what is there.

        Args:
            ready: samples that would go out.
            fresh: frames that are not decoded yet.
            frames: that came so far.

        Returns:
            Seconds, 0 for now; ``None`` to wait for more frames.
        """
        ...


class AtTheEnd:
    """Nothing is decoded before the utterance is complete."""

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """See :class:`Schedule`."""
        return None


class Batches:
    """Pieces of a size that never changes.

    Args:
        frames: that a piece has at least.
        samples_per_frame: of the synthesizer.
    """

    def __init__(self, frames: int, samples_per_frame: int) -> None:
        self._frames, self._samples = frames, frames * samples_per_frame

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """See :class:`Schedule`."""
        # Before the first sound the state is fed as well, so that the first piece is quick.
        feeds = ready <= 0 and fresh >= self._frames
        return 0.0 if feeds or ready >= self._samples else None


class Listener:
    """Somebody who hears a row from its first sample on, and pauses when nothing is there.

    Args:
        clock: seconds, as ``time.monotonic``.

    Attributes:
        hears: whether the row has begun.
        delay: seconds that a piece takes from the moment it is due until its samples are there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._dry = 0.0  # when the samples given so far will have been heard
        self.hears = False
        self.delay = 0.0

    @property
    def lead(self) -> float:
        """Seconds of sound that are not heard yet; negative while nothing is there."""
        return self._dry - self.clock()

    def give(self, samples: int, delay: float) -> None:
        """More of the row is there, so many seconds after it was due."""
        # The longest delay counts, and is forgotten slowly.
        self.delay = max(delay, 0.9 * self.delay)
        self._dry = max(self._dry, self.clock()) + samples / SAMPLE_RATE
        self.hears = True


class Paced:
    """Pieces just in time: none so late that the listener would pause, and none smaller than need
    be, since a few frames cost nearly as much as many.

    Args:
        listener: of the row.
        samples_per_frame: of the synthesizer.
        first: frames of the first piece, and of one after a pause, where there is time to spare;
            the less there is, the more they are.
        most: frames that no piece needs to exceed.
    """

    # Frames fed before there is anything to give, so that the first piece has few.
    _FEED = 8
    # Seconds that a piece may be late beyond what the last ones took: an operating system's slice.
    _SLACK = 0.02
    # Frames that must come, while a first piece is heard, beyond those that are heard: a smaller
    # lead would be eaten up by the cost of the many small pieces that it allows.
    _GAIN = 1.5

    def __init__(
        self, listener: Listener, samples_per_frame: int, *, first: int = 4, most: int = 24
    ) -> None:
        self._listener, self._samples = listener, samples_per_frame
        self._first, self._most = first, most
        # When the first frames were seen, and how many.
        self._began: tuple[float, int] | None = None

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """See :class:`Schedule`."""
        if self._began is None:
            self._began = self._listener.clock(), frames
        if ready <= 0:
            return 0.0 if fresh >= self._FEED else None
        if ready >= self._most * self._samples:
            return 0.0
        lead, delay = self._listener.lead, self._listener.delay
        if not self._listener.hears or lead <= delay:  # there is a pause, whatever is done
            return 0.0 if ready >= self._least(*self._began, frames) * self._samples else None
        # What is larger than the last pieces takes longer than they did.
        is_small = ready < self._first * self._samples
        return max(0.0, lead - (1 if is_small else 2) * delay - self._SLACK)

    def _least(self, began: float, seen: int, frames: int) -> int:
        """Frames of a piece that the listener waits for, from how fast frames came so far."""
        came = frames - seen
        if came < self._FEED:
            return self._first
        heard = came * self._samples / SAMPLE_RATE
        gain = 1 - (self._listener.clock() - began) / heard  # of each frame's time
        if gain * self._most <= self._GAIN:
            return self._most
        return max(self._first, math.ceil(self._GAIN / gain))
