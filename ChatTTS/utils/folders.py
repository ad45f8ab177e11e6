"""The folders of a user's caches and data, by the conventions of each operating system."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from ..errors import ConfigError


@dataclass(frozen=True)
class _Convention:
    """A kind of folder: its environment variables, and its place in the home folder."""

    variable: str
    windows_variable: str
    windows: str
    macos: str
    other: str


_CACHE = _Convention("XDG_CACHE_HOME", "LOCALAPPDATA", "AppData/Local", "Library/Caches", ".cache")
_DATA = _Convention(
    "XDG_DATA_HOME",
    "APPDATA",
    "AppData/Roaming",
    "Library/Application Support",
    ".local/share",
)


def cache_folder() -> Path:
    """Return the folder of files that may be deleted at any time."""
    return _folder(_CACHE)


def data_folder() -> Path:
    """Return the folder of the user's own data."""
    return _folder(_DATA)


def _folder(convention: _Convention) -> Path:
    if chosen := os.environ.get(convention.variable):
        base = Path(chosen)
    elif sys.platform == "win32":
        found = os.environ.get(convention.windows_variable)
        base = Path(found) if found else _home(convention.windows_variable) / convention.windows
    elif sys.platform == "darwin":
        base = _home(convention.variable) / convention.macos
    else:
        base = _home(convention.variable) / convention.other
    return base / "chattts-velocity"


def _home(variable: str) -> Path:
    """Return the user's home folder; an error names ``variable``, which may be set instead."""
    try:
        return Path.home()
    except RuntimeError:  # no HOME, and the system does not know the user
        raise ConfigError(
            f"this user has no home folder: set HOME, or {variable} to a folder"
        ) from None
