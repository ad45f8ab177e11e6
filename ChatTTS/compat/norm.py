"""The normalizer with the constructor of the published package."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from ..text import Normalizer as TextNormalizer
from ..text import load_homophones

__all__ = ["Normalizer"]


class ScriptNormalizer(TextNormalizer):
    """A normalizer for no particular checkpoint, with a table of homophones.

    Args:
        map_file_path: a JSON table of homophones. Without such a file no character is replaced.
        logger: takes warnings about the table.
    """

    def __init__(
        self,
        map_file_path: str | os.PathLike[str] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self.logger = logger or logging.getLogger(__name__)
        table: dict[str, str] = {}
        if map_file_path is not None:
            if Path(map_file_path).is_file():
                table = load_homophones(Path(map_file_path))
            else:
                self.logger.warning("no table of homophones was found: %s", map_file_path)
        super().__init__(table)


Normalizer = ScriptNormalizer  # the published name
