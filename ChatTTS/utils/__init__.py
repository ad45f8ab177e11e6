"""Small helpers.

The names below are those that scripts import from the published package: devices, files, downloads,
a logger. They are imported at first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_names import lazy_names

if TYPE_CHECKING:
    from ..compat.dl import check_all_assets, download_all_assets
    from ..compat.gpu import select_device
    from ..compat.io import FileLike, del_all, get_latest_modified_file, load_safetensors
    from ..compat.log import logger

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "dl": ("check_all_assets", "download_all_assets"),
        "gpu": ("select_device",),
        "io": ("FileLike", "del_all", "get_latest_modified_file", "load_safetensors"),
        "log": ("logger",),
    },
)
