"""The names of adapters, and which of them a request means."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError, shown

BASE = "base"
"""The name by which a request asks for no adapter."""
DEFAULT = "default"
"""The adapter of requests that name none, if one has this name."""

_MAX_ADAPTERS = 64
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class AdapterInfo:
    """A loaded adapter without its numbers.

    Attributes:
        speaker: the speaker string that it was trained with, if it says so.
        digest: of all that decides what it adds, in hexadecimal.
    """

    speaker: str | None
    digest: str


Adapters = Mapping[str, AdapterInfo]
"""The loaded adapters by their names."""


def check_adapter_name(name: object) -> str:
    """Return a name that an adapter may have.

    Raises:
        ConfigError: it is no text of 1 to 64 letters, digits, ``_``, ``-`` and ``.``, or it is
            ``base``, which stands for the checkpoint alone.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"an adapter's name must have 1 to 64 of the characters A-Z a-z 0-9 _ - . and begin "
            f"with none of the last two, not {shown(name)}"
        )
    if name == BASE:
        raise ConfigError(
            f"no adapter can have the name {BASE!r}, which stands for the checkpoint without one: "
            "choose another name"
        )
    return str.__str__(name)


def check_known(name: str | None, known: Collection[str]) -> str | None:
    """Return the exact name of an adapter, or ``None`` for none.

    Raises:
        ConfigError: no adapter of that name is loaded.
    """
    if name is None or (isinstance(name, str) and name in known):
        return None if name is None else str.__str__(name)
    names = ", ".join(known)
    have = f"those that are loaded: {names}" if names else "none is loaded: load with adapter=..."
    raise ConfigError(f"there is no adapter {shown(name)}; {have}")


def chosen_adapter(asked: str | None, known: Collection[str]) -> str | None:
    """Return the adapter of a request, or ``None`` for none.

    Args:
        asked: a name; ``base`` for none; ``None`` for the adapter ``default``, if there is one.
        known: the names of the loaded adapters.

    Raises:
        ConfigError: no adapter of that name is loaded.
    """
    if asked is None:
        return DEFAULT if DEFAULT in known else None
    return None if asked == BASE else check_known(asked, known)


def adapter_folders(given: str | Path | Mapping[str, str | Path] | None) -> dict[str, Path]:
    """Return the folders of the adapters that a caller names, by their names.

    Args:
        given: a folder, which is the adapter ``default``; or folders by names.

    Raises:
        ConfigError: a name or a path is invalid, or there are too many.
    """
    if given is None:
        return {}
    named = given if isinstance(given, Mapping) else {DEFAULT: given}
    if len(named) > _MAX_ADAPTERS:
        raise ConfigError(f"{len(named)} adapters are given, and at most {_MAX_ADAPTERS} can be")
    folders = {}
    for name, path in named.items():
        if not isinstance(path, (str, Path)) or not str(path) or "\0" in str(path):
            raise ConfigError(
                f"adapter must be a folder, or a dict of names and folders, not {shown(path)}"
            )
        folders[check_adapter_name(name)] = Path(path)
    return folders
