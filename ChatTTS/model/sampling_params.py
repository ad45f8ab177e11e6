"""The sampling settings of a request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from ..errors import ConfigError, shown
from ..params import NO_TOP_K, RefineTextParams

N = TypeVar("N", int, float)

# A smaller temperature would overflow float32 logits. Far above it, a draw already gives the most
# probable token.
_MIN_TEMPERATURE = 1e-20
# Less than float32 holds. numpy warns when a number overflows, and warnings may be errors.
_MOST = 1e30


@dataclass(frozen=True)
class SamplingParams:
    """The settings of the draws, and the number of samples.

    All values are converted to Python's own numbers, because the engine's thread reads them: no
    method of a caller's class may run there.

    Attributes:
        temperature: one value for each codebook (one for text); 0 is greedy.
        top_p, top_k, repetition_penalty: see ``RefineTextParams``.
        min_new, max_new: the fewest and the most tokens or frames to generate.
        n: the number of samples of the prompt. They share its blocks.
        best: return only the sample with the highest mean log-probability, when all have ended.

    Raises:
        ConfigError: a value is invalid; the message names it.
    """

    temperature: tuple[float, ...]
    top_p: float
    top_k: int
    repetition_penalty: float
    min_new: int
    max_new: int
    n: int = 1
    best: bool = False

    def __post_init__(self) -> None:
        given = self.temperature
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise ConfigError(
                f"temperature must be a tuple with one number for each codebook, not {shown(given)}"
            )
        values: dict[str, Any] = {
            "temperature": tuple(_read("temperature", value, float) for value in given),
            "best": _flag("best", self.best),
        }
        for name in ("top_p", "repetition_penalty"):
            values[name] = _read(name, getattr(self, name), float)
        for name in ("top_k", "min_new", "max_new", "n"):
            values[name] = _read(name, getattr(self, name), int)
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

    @classmethod
    def from_params(cls, params: RefineTextParams, num_codebooks: int) -> SamplingParams:
        """Return the settings in checked ``params``; one temperature is used for all codebooks.

        Raises:
            ConfigError: the number of temperatures is neither one nor ``num_codebooks``.
        """
        given = params.temperature
        values = np.ravel(given).tolist() * (num_codebooks if np.ndim(given) == 0 else 1)
        if len(values) != num_codebooks:
            raise ConfigError(
                f"temperature has {len(values)} values; this pass draws {num_codebooks}"
            )
        return cls(
            temperature=tuple(map(usable_temperature, values)),
            top_p=params.top_P,
            top_k=params.top_K,
            repetition_penalty=usable_penalty(params.repetition_penalty),
            min_new=min(params.min_new_token, params.max_new_token),
            max_new=params.max_new_token,
        )

    @property
    def is_greedy(self) -> bool:
        """Return whether no draw depends on the key."""
        return not any(self.temperature)


_WANTED = {
    "temperature": "finite, 0 or more",
    "top_p": "between 0 and 1",
    "top_k": "at least 1",
    "repetition_penalty": "above 0 and finite",
    "min_new": "0 or more",
    "max_new": "at least 1",
    "n": "between 1 and 65536",
}


def usable_temperature(value: float) -> float:
    """Return a float that float32 logits can be divided by, or 0 (greedy) for a smaller one."""
    number = float(value)
    return min(number, _MOST) if number >= _MIN_TEMPERATURE else 0.0


def usable_penalty(value: float) -> float:
    """Return a float that float32 holds. Values beyond these bounds give equal draws."""
    return min(max(float(value), 1 / _MOST), _MOST)


def _flag(name: str, value: Any) -> bool:
    try:
        return bool(value)
    except Exception as error:  # from an array, or a class of the caller's
        raise ConfigError(f"{name} must be true or false, not {shown(value)}") from error


def _read(name: str, value: Any, kind: type[N]) -> N:
    """Return ``value`` as Python's own ``int`` or ``float``."""
    fits = isinstance(value, Integral if kind is int else Real)
    if not fits:
        noun = "whole number" if kind is int else "number"
        raise ConfigError(f"{name} must be a {noun}, not {shown(value)}")
    try:
        return kind(value)
    except Exception as error:  # the number is too large, or of a class of the caller's
        raise ConfigError(f"{name} cannot be read as a number ({error})") from error
