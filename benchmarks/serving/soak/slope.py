"""The slope of a series over time, and whether it is zero within its error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = Sequence[float] | NDArray[Any]

_BLOCKS = 12
_FEWEST_BLOCKS = 6
# Of Student's distribution with so many degrees of freedom: 99 % are between minus this and this.
_STUDENT = {4: 4.604, 5: 4.032, 6: 3.707, 7: 3.499, 8: 3.355, 9: 3.250, 10: 3.169}


@dataclass(frozen=True)
class Slope:
    """A slope and its error.

    Attributes:
        per_hour: the slope by least squares over all values, in units of the values an hour.
        error: its standard error, from means of blocks.
        within: half the width of the interval of 99 %.
        values: how many there were.
    """

    per_hour: float
    error: float
    within: float
    values: int

    @property
    def verdict(self) -> str:
        """``zero within error``, ``grows`` or ``falls``."""
        if abs(self.per_hour) <= self.within:
            return "zero within error"
        return "grows" if self.per_hour > 0 else "falls"


def slope_of(hours: Values, values: Values) -> Slope | None:
    """Return the slope of values over time; ``None`` if there are too few.

    Neighbouring values of a process's memory depend on each other, so that the error of single
    values would be far too small. The error is that of a line through the means of twelve blocks,
    which hardly depend on each other.

    Args:
        hours: when each value was taken, ascending.
        values: of any unit.
    """
    when, what = np.asarray(hours, dtype=float), np.asarray(values, dtype=float)
    if len(when) < 2 * _BLOCKS or when[-1] <= when[0]:
        return None
    places = np.minimum((when - when[0]) / (when[-1] - when[0]) * _BLOCKS, _BLOCKS - 1).astype(int)
    blocks = [places == number for number in range(_BLOCKS) if (places == number).any()]
    if len(blocks) < _FEWEST_BLOCKS:
        return None
    centres = np.array([when[block].mean() for block in blocks])
    means = np.array([what[block].mean() for block in blocks])
    line = np.polyfit(centres, means, 1)
    rest = means - np.polyval(line, centres)
    freedom = len(blocks) - 2
    spread = float(((centres - centres.mean()) ** 2).sum())
    error = float(np.sqrt((rest**2).sum() / freedom / spread))
    per_hour = float(np.polyfit(when - when.mean(), what, 1)[0])
    return Slope(per_hour, error, _STUDENT[freedom] * error, len(when))


def warm_up_seconds(seconds: float, least: float) -> float:
    """Return how much of the beginning is left out: a quarter, and no less than ``least``."""
    return max(seconds / 4, least)
