"""Checks of the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from ..config.request_fields import LONGEST_DURATION
from ..errors import ConfigError, TextError, shown

# The choices of the guard: generate utterances with faults again, or only tell of them.
RETRY, REPORT = "retry", "report"

# Random draws number the utterances of a text in 32 bits.
_MAX_UTTERANCES = 2**31


def checked_texts(given: str | Sequence[str]) -> list[str]:
    """Return the texts as plain strings; ``""`` is none.

    Raises:
        TextError: one of them is no string.
    """
    if isinstance(given, str):
        return [str.__str__(given)] if given else []
    if isinstance(given, (bytes, bytearray)) or not isinstance(given, Iterable):
        raise TextError(f"text must be a string or several, not {shown(given)}")
    texts = list(given)
    for text in texts:
        if not isinstance(text, str):
            raise TextError(f"each text must be a string, not {shown(text)}")
    return [str.__str__(text) for text in texts]


def checked_batch(size: int) -> int:
    """Return the number of utterances to generate side by side.

    Raises:
        ConfigError: it is no number from 1.
    """
    if not isinstance(size, Real) or not size >= 1:
        raise ConfigError(f"max_split_batch must be at least 1 with split_text, not {shown(size)}")
    return int(min(size, _MAX_UTTERANCES))


def checked_first(number: int) -> int:
    """Return the number of a text's first utterance in a longer text.

    Raises:
        ConfigError: random draws have no room for it, or it is no whole number.
    """
    if not isinstance(number, Integral) or not 0 <= number < _MAX_UTTERANCES:
        raise ConfigError(
            f"first_utterance must be a whole number from 0 to {_MAX_UTTERANCES - 1}, not "
            f"{shown(number)}"
        )
    return int(number)


def checked_durations(
    given: Any, text: str | Sequence[str], texts: Sequence[str]
) -> list[float | None]:
    """Return the seconds of each text; ``None`` for one that takes as long as it does.

    Args:
        given: as the caller gave it.
        text: the caller's text or texts.
        texts: as :func:`checked_texts` returns them.

    Raises:
        ConfigError: a value is no time, or there is not one for each text.
    """
    if given is None:
        return [None] * len(texts)
    if isinstance(text, str):
        # A list of one is welcome, since a string is one text.
        values = list(given) if isinstance(given, list | tuple) else [given]
        values = values if texts else []
    elif isinstance(given, str | Real) or not isinstance(given, Iterable):
        raise ConfigError(
            f"duration must be a list with the seconds of each of {len(texts)} texts, not "
            f"{shown(given)}"
        )
    else:
        values = list(given)
    if len(values) != len(texts):
        raise ConfigError(
            f"duration must have the seconds of each text: {len(texts)} numbers, not {len(values)}"
        )
    return [None if value is None else _seconds(value) for value in values]


def _seconds(value: Any) -> float:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < value <= LONGEST_DURATION:
        raise ConfigError(
            f"duration must be seconds above 0 and at most {LONGEST_DURATION:g}, not {shown(value)}"
        )
    return float(value)


def checked_guard(guard: Any) -> str | None:
    """Return what is done about faults of utterances; ``None`` for nothing.

    Raises:
        ConfigError: it is unknown.
    """
    if guard is None:
        return None
    if guard not in (RETRY, REPORT):
        raise ConfigError(f'guard must be "retry", "report" or None, not {shown(guard)}')
    return str(guard)
