"""Helpers that scripts import from the published package: devices, files, downloads, a logger."""

from __future__ import annotations

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
