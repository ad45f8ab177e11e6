"""The sampling settings of a request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConfigError, shown
from ..params import (
    COUNT,
    COUNT_OR_NONE,
    FACTOR,
    NO_TOP_K,
    PROBABILITY,
    TEMPERATURE,
    NumberRule,
    RefineTextParams,
    read_flag,
    read_numbers,
)

# A smaller temperature would overflow float32 logits. Far above it, a draw already gives the most
# probable token.
_MIN_TEMPERATURE = 1e-20
# Less than float32 holds. numpy warns when a number overflows, and warnings may be errors. Larger
# temperatures, and penalties beyond it or its inverse, give equal draws.
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
        read_numbers(self, _RULES)
        values: dict[str, Any] = {
            name: min(getattr(self, name), NO_TOP_K) for name in ("top_k", "min_new", "max_new")
        }
        values["temperature"] = tuple(
            _usable_temperature(TEMPERATURE.read("temperature", value)) for value in given
        )
        values["repetition_penalty"] = min(max(self.repetition_penalty, 1 / _MOST), _MOST)
        values["best"] = read_flag("best", self.best)
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
            temperature=tuple(values),
            top_p=params.top_P,
            top_k=params.top_K,
            repetition_penalty=params.repetition_penalty,
            min_new=min(params.min_new_token, params.max_new_token),
            max_new=params.max_new_token,
        )

    @property
    def is_greedy(self) -> bool:
        """Return whether no draw depends on the key."""
        return not any(self.temperature)


_RULES: Mapping[str, NumberRule[int] | NumberRule[float]] = {
    "top_p": PROBABILITY,
    "top_k": COUNT,
    "repetition_penalty": FACTOR,
    "min_new": COUNT_OR_NONE,
    "max_new": COUNT,
    "n": NumberRule(int, "between 1 and 65536", lambda number: 1 <= number <= 2**16),
}


def _usable_temperature(number: float) -> float:
    """Return a float that float32 logits can be divided by, or 0 (greedy) for a smaller one."""
    return min(number, _MOST) if number >= _MIN_TEMPERATURE else 0.0
