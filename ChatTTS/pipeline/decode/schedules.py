"""Schedules of decoding: the moment and the size of an utterance's next piece."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from ...audio.samples import SAMPLE_RATE

FRAMES_PER_SECOND = 46.875  # each is 512 samples
FIRST_FRAMES = 4
"""Frames of the first piece of a text, where there is time to spare."""
PIECE_FRAMES = 24
"""Frames that no piece needs to exceed: more are little cheaper for each."""


class Schedule(Protocol):
    """Decides when to decode while more frames are to come.

    At the end of an utterance all remaining frames are decoded without asking it.
    """

    @property
    def lead(self) -> float:
        """Seconds of sound that the listener still has to play; 0 where that is not known."""
        return 0.0

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """Return how long to wait before the present frames are decoded.

        Args:
            ready: samples that would go out.
            fresh: frames that are not decoded yet.
            frames: frames that came so far.

        Returns:
            Seconds, 0 for now; ``None`` to wait for more frames.
        """
        ...


class WholeUtterance(Schedule):
    """Decodes nothing before the utterance is complete."""

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """Return ``None``, always: see :class:`Schedule`."""
        return None


class FixedSize(Schedule):
    """Decodes pieces of one size.

    Args:
        frames: that a piece has at least.
        samples_per_frame: of the synthesizer.
    """

    def __init__(self, frames: int, samples_per_frame: int) -> None:
        self._frames, self._samples = frames, frames * samples_per_frame

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """Return the seconds to wait: see :class:`Schedule`."""
        # Frames are decoded before the first sample can go out, too: then the first piece is quick.
        feeds = ready <= 0 and fresh >= self._frames
        return 0.0 if feeds or ready >= self._samples else None


class PlaybackClock:
    """Model of a listener that plays a waveform from its first sample on.

    Playback pauses while there are no samples to play.

    Args:
        clock: returns seconds, as ``time.monotonic``.

    Attributes:
        has_begun: whether playback has begun.
        delay: seconds from the moment when a piece is due until its samples are there.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._played_until = 0.0  # when the samples given so far will have been played
        self.has_begun = False
        self.delay = 0.0

    @property
    def lead(self) -> float:
        """Seconds of sound that are not played yet; negative during a pause."""
        return self._played_until - self.clock()

    def give(self, samples: int, delay: float) -> None:
        """Add samples that arrived ``delay`` seconds after they were due."""
        # The longest delay counts, and its weight decreases slowly.
        self.delay = max(delay, 0.9 * self.delay)
        self._played_until = max(self._played_until, self.clock()) + samples / SAMPLE_RATE
        self.has_begun = True


class JustInTime(Schedule):
    """Decodes pieces just in time for playback.

    No piece is so late that playback would pause. None is smaller than necessary either, since a
    few frames cost nearly as much as many.

    Args:
        playback: of the text's waveform.
        samples_per_frame: of the synthesizer.
        first: frames of the first piece, and of a piece after a pause, where there is time to
            spare. Where there is less time, the piece has more frames.
        max_frames: frames that no piece needs to exceed.
        feeds: decode frames before the first sample can go out, so that few are left for the first
            piece. Where a launch of many frames takes no longer than one of few, it only takes more
            launches.
    """

    # Fresh frames from which a schedule feeds the decoder.
    _FEED = 8
    # Seconds that a piece may be late beyond the delay of the last ones: a time slice of the
    # operating system.
    _SLACK = 0.02
    # Frames that must come while a first piece is played, for each frame that is played. A smaller
    # lead would be used up by the cost of the many small pieces that it allows.
    _GAIN = 1.5

    def __init__(
        self,
        playback: PlaybackClock,
        samples_per_frame: int,
        *,
        first: int = FIRST_FRAMES,
        max_frames: int = PIECE_FRAMES,
        feeds: bool = True,
    ) -> None:
        self._playback, self._samples = playback, samples_per_frame
        self._feed = self._FEED if feeds else math.inf
        self._first, self._max_frames = first, max_frames
        # When the first frames were seen, and how many.
        self._began: tuple[float, int] | None = None

    @property
    def lead(self) -> float:
        """Seconds of sound that are not played yet; negative during a pause."""
        return self._playback.lead if self._playback.has_begun else 0.0

    def wait(self, ready: int, fresh: int, frames: int) -> float | None:
        """Return the seconds to wait: see :class:`Schedule`."""
        if self._began is None:
            self._began = self._playback.clock(), frames
        if ready <= 0:
            return 0.0 if fresh >= self._feed else None
        if ready >= self._max_frames * self._samples:
            return 0.0
        lead, delay = self._playback.lead, self._playback.delay
        if not self._playback.has_begun or lead <= delay:  # a pause cannot be avoided
            return 0.0 if ready >= self._min_frames(*self._began, frames) * self._samples else None
        # A piece larger than the last ones takes longer than they did.
        is_small = ready < self._first * self._samples
        return max(0.0, lead - (1 if is_small else 2) * delay - self._SLACK)

    def _min_frames(self, began: float, seen: int, frames: int) -> int:
        """Return the frames of a piece that playback waits for, from the rate of frames so far."""
        came = frames - seen
        if came < self._FEED:
            return self._first
        played = came * self._samples / SAMPLE_RATE
        gain = 1 - (self._playback.clock() - began) / played  # of each frame's time
        if gain * self._max_frames <= self._GAIN:
            return self._max_frames
        return max(self._first, math.ceil(self._GAIN / gain))
