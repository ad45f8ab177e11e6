"""Read tensors, find files, and empty containers."""

from __future__ import annotations

import os
from dataclasses import is_dataclass
from typing import IO, Any

from torch import Tensor

from ..weights.tensors import read_tensors
from .log import logger

FileLike = str | os.PathLike[str] | IO[bytes]


def load_safetensors(filename: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the tensors of a ``.safetensors`` file.

    Raises:
        AssetError: the file is missing or damaged.
    """
    return read_tensors(filename)


def get_latest_modified_file(directory: str | os.PathLike[str]) -> str | None:
    """Return the path of the newest file in a folder; ``None``, with a warning, if it is empty."""
    files = [os.path.join(directory, name) for name in os.listdir(directory)]
    if not files:
        logger.get_logger().warning("there are no files in the folder %s", directory)
        return None
    return max(files, key=os.path.getmtime)


def del_all(d: Any) -> None:
    """Empty a list, a dict or a dataclass, and the containers in it."""
    if isinstance(d, dict):
        values = list(d.values())
        d.clear()
    elif isinstance(d, list):
        values = list(d)
        d.clear()
    elif is_dataclass(d) and not isinstance(d, type):
        values = list(vars(d).values())
        vars(d).clear()
    else:
        return
    for value in values:
        del_all(value)
