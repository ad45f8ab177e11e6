"""The guard: whether a call's utterances are checked for faults, and generated again."""

from __future__ import annotations

from typing import Any

from ..errors import ConfigError, shown

RETRY, REPORT = "retry", "report"


def checked_guard(guard: Any) -> str | None:
    """Return the caller's choice.

    Raises:
        ConfigError: it is unknown.
    """
    if guard is None:
        return None
    if guard not in (RETRY, REPORT):
        raise ConfigError(f'guard must be "retry", "report" or None, not {shown(guard)}')
    return str(guard)
