"""Small helpers.

The names below are those that scripts import from the published package: devices, files, downloads,
a logger. They are imported at first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dl import check_all_assets, download_all_assets
    from .gpu import select_device
    from .io import FileLike, del_all, get_latest_modified_file, load_safetensors
    from .log import logger

__all__ = [
    "FileLike",
    "check_all_assets",
    "del_all",
    "download_all_assets",
    "get_latest_modified_file",
    "load_safetensors",
    "logger",
    "select_device",
]

_HOMES = {
    "FileLike": ".io",
    "check_all_assets": ".dl",
    "del_all": ".io",
    "download_all_assets": ".dl",
    "get_latest_modified_file": ".io",
    "load_safetensors": ".io",
    "logger": ".log",
    "select_device": ".gpu",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ChatTTS.utils' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
