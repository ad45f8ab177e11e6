"""Progress bars for what takes its time."""

from __future__ import annotations

from typing import Any

from tqdm import tqdm


def progress(what: str, unit: str, show: bool = True, total: int | None = None) -> Any:
    """A bar on standard error that comes up after two seconds, and only on a terminal."""
    return tqdm(
        desc=what,
        unit=f" {unit}s",
        total=total,
        delay=2,
        leave=False,
        disable=None if show else True,
    )
