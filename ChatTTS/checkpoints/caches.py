"""Caches on disk: where they are, how big they are, and how to delete them."""

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
    """A cache folder, filled by downloads or by this package; without a folder ``bytes`` is 0."""

    name: str
    path: Path
    bytes: int


def cache_entries() -> list[CacheEntry]:
    """Return the cache folders.

    They are ``huggingface`` (the downloaded checkpoint) and ``own`` (known hashes, kernels,
    packed weights and attention heads).
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    folders = {
        "huggingface": Path(HF_HUB_CACHE) / f"models--{REPOSITORY.replace('/', '--')}",
        "own": cache_folder(),
    }
    return [CacheEntry(name, path, _bytes_below(path)) for name, path in folders.items()]


def clear_cache(names: Collection[str]) -> list[CacheEntry]:
    """Delete the entries of :func:`cache_entries` that ``names`` lists, and return these.

    Raises:
        ConfigError: a name is unknown; nothing is deleted then.
        AssetError: a folder cannot be deleted, or is a link that points out of the cache.
    """
    entries = {entry.name: entry for entry in cache_entries()}
    unknown = [name for name in names if name not in entries]
    if unknown:
        raise ConfigError(
            f"unknown cache {', '.join(map(repr, unknown))}; use one of {', '.join(entries)}"
        )
    chosen = [entry for name, entry in entries.items() if name in names]
    present = [entry for entry in chosen if os.path.lexists(entry.path)]
    for entry in present:
        try:
            shutil.rmtree(entry.path)  # follows no links, and refuses one as the folder itself
        except OSError as error:
            raise AssetError(
                f"{entry.path} cannot be deleted ({error}); close the programs that use it, or "
                "delete it yourself"
            ) from error
    return present


def _bytes_below(path: Path) -> int:
    """Return the bytes of all files below ``path``; links do not count."""
    total = 0
    for folder, _, names in os.walk(path):
        for file in (Path(folder, name) for name in names):
            with suppress(OSError):  # a running download moves its files
                total += 0 if file.is_symlink() else file.stat().st_size
    return total
