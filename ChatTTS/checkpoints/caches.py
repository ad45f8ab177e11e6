"""What is kept on disk between runs: where it lies, how big it is, and how to be rid of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import AssetError, ConfigError
from ..utils.folders import cache_folder
from .assets import REPOSITORY


@dataclass(frozen=True)
class CacheEntry:
    """A folder that downloads or this package fill; ``bytes`` is 0 where it does not exist."""

    name: str
    path: Path
    bytes: int


def cache_entries() -> list[CacheEntry]:
    """Say what lies where: ``huggingface`` (the downloaded checkpoint), ``own`` (known hashes,
    kernels and packed weights)."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folders = {
        "huggingface": Path(HF_HUB_CACHE) / f"models--{REPOSITORY.replace('/', '--')}",
        "own": cache_folder(),
    }
    return [CacheEntry(name, path, _bytes_below(path)) for name, path in folders.items()]


def clear_cache(names: Collection[str]) -> list[CacheEntry]:
    """Delete the entries of :func:`cache_entries` that ``names`` lists, and say what is gone.

    Raises:
        ConfigError: an unknown name; nothing is deleted then.
        AssetError: a folder cannot be deleted, or is a link that leads out of the cache.
    """
    entries = {entry.name: entry for entry in cache_entries()}
    unknown = [name for name in names if name not in entries]
    if unknown:
        raise ConfigError(
            f"no cache is called {', '.join(map(repr, unknown))}; there are {', '.join(entries)}"
        )
    chosen = [entry for name, entry in entries.items() if name in names]
    present = [entry for entry in chosen if os.path.lexists(entry.path)]
    for entry in present:
        try:
            shutil.rmtree(entry.path)  # follows no links, refuses to start at one
        except OSError as error:
            raise AssetError(
                f"{entry.path} cannot be deleted ({error}); close what uses it, or do it by hand"
            ) from error
    return present


def _bytes_below(path: Path) -> int:
    """Add up the files below ``path``, each once, however many links lead to it."""
    total = 0
    for folder, _, names in os.walk(path):
        for file in (Path(folder, name) for name in names):
            with suppress(OSError):  # a download at work moves its files
                total += 0 if file.is_symlink() else file.stat().st_size
    return total
