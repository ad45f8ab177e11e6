"""How a request of the engine is to be sampled."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from ...errors import ConfigError
from ..generation import Sampling


@dataclass(frozen=True)
class SamplingParams(Sampling):
    """The settings of every draw, and how many samples of the prompt are wanted.

    Attributes:
        n: samples of one prompt; they share its blocks.
        best: give only the sample whose mean log-probability is the highest, once all are done.

    Raises:
        ConfigError: a value that makes no sense; the message names it.
    """

    n: int = 1
    best: bool = False

    def __post_init__(self) -> None:
        for name in ("top_k", "min_new", "max_new", "n"):
            if not isinstance(getattr(self, name), Integral):
                raise ConfigError(f"{name} must be a whole number, not {getattr(self, name)!r}")
        checks = (
            ("temperature", all(0 <= t < math.inf for t in self.temperature), "finite, 0 or more"),
            ("top_p", 0 <= self.top_p <= 1, "between 0 and 1"),
            ("top_k", self.top_k >= 1, "at least 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < math.inf, "above 0 and finite"),
            ("min_new", self.min_new >= 0, "0 or more"),
            ("max_new", self.max_new >= 1, "at least 1"),
            ("n", 1 <= self.n <= 2**16, "between 1 and 65536"),
        )
        for name, fits, wanted in checks:
            if not fits:
                raise ConfigError(f"{name} must be {wanted}, not {getattr(self, name)!r}")
