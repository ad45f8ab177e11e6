"""Where this package keeps a user's things, by the customs of each system, and careful reading."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError


@dataclass(frozen=True)
class _Custom:
    """A kind of folder: the variable that names it everywhere, on Windows, and where it lies."""

    variable: str
    windows_variable: str
    windows: str
    macos: str
    other: str


_CACHE = _Custom("XDG_CACHE_HOME", "LOCALAPPDATA", "AppData/Local", "Library/Caches", ".cache")
_DATA = _Custom(
    "XDG_DATA_HOME",
    "APPDATA",
    "AppData/Roaming",
    "Library/Application Support",
    ".local/share",
)


def cache_folder() -> Path:
    """For what may be lost at any time."""
    return _folder(_CACHE)


def data_folder() -> Path:
    """For what is the user's own."""
    return _folder(_DATA)


def _folder(custom: _Custom) -> Path:
    if chosen := os.environ.get(custom.variable):
        base = Path(chosen)
    elif sys.platform == "win32":
        found = os.environ.get(custom.windows_variable)
        base = Path(found) if found else _home(custom.windows_variable) / custom.windows
    elif sys.platform == "darwin":
        base = _home(custom.variable) / custom.macos
    else:
        base = _home(custom.variable) / custom.other
    return base / "chattts-velocity"


def _home(variable: str) -> Path:
    """The user's home folder; ``variable`` is what may be set instead."""
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and a user that the system does not know
        raise ConfigError(
            f"this user has no home folder: set HOME, or {variable} to a folder of its own"
        ) from None
