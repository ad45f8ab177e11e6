"""How a request of the engine is to be sampled."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ...errors import ConfigError, shown
from ...params import NO_TOP_K
from ..generation import Sampling, usable_penalty, usable_temperature


@dataclass(frozen=True)
class SamplingParams(Sampling):
    """The settings of every draw, and how many samples of the prompt are wanted.

    All values become Python's own numbers, since they are read in a thread that serves others too.

    Attributes:
        n: samples of one prompt; they share its blocks.
        best: give only the sample whose mean log-probability is the highest, once all are done.

    Raises:
        ConfigError: a value that makes no sense; the message names it.
    """

    n: int = 1
    best: bool = False

    def __post_init__(self) -> None:
        given = self.temperature
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ConfigError(
                f"temperature must be a tuple with one number for each codebook, not {shown(given)}"
            )
        values: dict[str, Any] = {
            "temperature": tuple(_number("temperature", value) for value in given),
            "best": _flag("best", self.best),
        }
        for name in ("top_p", "repetition_penalty"):
            values[name] = _number(name, getattr(self, name))
        for name in ("top_k", "min_new", "max_new", "n"):
            values[name] = _whole(name, getattr(self, name))
        checks = (
            ("temperature", all(0 <= t < math.inf for t in values["temperature"])),
            ("top_p", 0 <= values["top_p"] <= 1),
            ("top_k", values["top_k"] >= 1),
            ("repetition_penalty", 0 < values["repetition_penalty"] < math.inf),
            ("min_new", values["min_new"] >= 0),
            ("max_new", values["max_new"] >= 1),
            ("n", 1 <= values["n"] <= 2**16),
        )
        for name, fits in checks:
            if not fits:
                raise ConfigError(f"{name} must be {_WANTED[name]}, not {shown(values[name])}")
        values["temperature"] = tuple(map(usable_temperature, values["temperature"]))
        values["repetition_penalty"] = usable_penalty(values["repetition_penalty"])
        for name in ("top_k", "min_new", "max_new"):
            values[name] = min(values[name], NO_TOP_K)
        for name, value in values.items():
            object.__setattr__(self, name, value)


_WANTED = {
    "temperature": "finite, 0 or more",
    "top_p": "between 0 and 1",
    "top_k": "at least 1",
    "repetition_penalty": "above 0 and finite",
    "min_new": "0 or more",
    "max_new": "at least 1",
    "n": "between 1 and 65536",
}


def _flag(name: str, value: Any) -> bool:
    try:
        return bool(value)
    except Exception as error:  # of an array, or of a class of the caller's
        raise ConfigError(f"{name} must be true or false, not {shown(value)}") from error


def _number(name: str, value: Any) -> float:
    if not isinstance(value, Real):
        raise ConfigError(f"{name} must be a number, not {shown(value)}")
    try:
        return float(value)
    except Exception as error:  # too large, or of a class of the caller's
        raise ConfigError(f"{name} cannot be read as a number ({error})") from error


def _whole(name: str, value: Any) -> int:
    if not isinstance(value, Integral):
        raise ConfigError(f"{name} must be a whole number, not {shown(value)}")
    try:
        return int(value)
    except Exception as error:  # of a class of the caller's
        raise ConfigError(f"{name} cannot be read as a number ({error})") from error
