"""Where this package keeps a user's things, by the customs of each system."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


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
        base = Path(os.environ.get(custom.windows_variable) or Path.home() / custom.windows)
    elif sys.platform == "darwin":
        base = Path.home() / custom.macos
    else:
        base = Path.home() / custom.other
    return base / "chattts-velocity"
