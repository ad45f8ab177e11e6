"""Forecast of a search's time: told before it starts, and again if it takes longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# A forecast that is exceeded by less is not corrected.
_SLOWER = 1.3
# Less of the work says nothing of the rest.
_LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Pace:
    """Seconds that parts of the work took when they were measured.

    Attributes:
        step: a step of a search, with its share of a look.
        whole: the likelihood of all recordings with one speaker.
    """

    step: float
    whole: float


class Forecast:
    """The time that work takes, from the pace that was measured and the work that is done.

    Args:
        seconds: of all work, as it was measured.
        what: is done, for the message.
        say: called with each message.
        clock: returns seconds; time passes between two calls.
    """

    def __init__(
        self,
        seconds: float,
        what: str,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._seconds, self._say, self._clock = seconds, say, clock
        self._done, self._told, self._begin = 0.0, seconds, clock()
        say(f"{what} takes at most about {duration(seconds)}")

    def advance(self, seconds: float) -> None:
        """Count work that is done, in seconds as they were measured."""
        self._done += seconds
        share = self._done / self._seconds
        if not _LEAST_SHARE <= share < 1:
            return
        gone = self._clock() - self._begin
        if gone / share > _SLOWER * self._told:
            self._told = gone / share
            self._say(
                "it takes longer than was measured, as other programs use the processor: at most "
                f"about {duration(self._told - gone)} more"
            )


def duration(seconds: float) -> str:
    """Return a length of time in words, such as ``50 s``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
