"""Files of what was found out about a checkpoint once, such as how long it speaks.

Such a file is beside a checkpoint in a folder of the user's. For all other checkpoints, and where
that folder is read-only, it is in the cache folder, under a hash of the weights.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from .checkpoints.assets import AssetFolder
from .errors import AssetError, ConfigError
from .model.velocity.backends.cpu.fingerprint import fingerprint
from .utils.kept_files import KeptFolder, writing_whole
from .utils.untrusted import LONGEST_JSON, parse_json, read_json
from .weights.tensor_file import TensorFile

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class FoundFile(Generic[T]):
    """The file of one thing that was found out about a checkpoint.

    Attributes:
        assets: the checkpoint.
        path: of the file beside it.
        folder: name of the folder in the cache folder.
        what: what was found, in the plural, such as ``the attention heads``.
        remedy: of a damaged file beside the checkpoint.
        parse: returns the finding of a JSON value; raises ValueError where it is none.
    """

    assets: AssetFolder
    path: Path
    folder: str
    what: str
    remedy: str
    parse: Callable[[Any], T]

    def read(self) -> T | None:
        """Return what is stored, or ``None``.

        Raises:
            ConfigError: the file beside the checkpoint is damaged.
        """
        found = self._read_beside()
        return self._read_cached() if found is None else found

    def write(self, value: Mapping[str, Any]) -> Path | None:
        """Store a JSON value; return its file, or ``None`` where none can be written."""
        content = json.dumps(value, indent=1).encode("utf-8") + b"\n"
        if self._is_own and os.access(self.path.parent, os.W_OK):
            try:
                with writing_whole(self.path) as file:
                    file.write(content)
                return self.path
            except OSError as error:
                logger.info("%s cannot be written: %s", self.path, error)
        folder = KeptFolder(self.folder)
        try:
            name = self._cached_name()
            with folder.writing(name) as file:
                file.write(content)
        except (OSError, AssetError) as error:
            logger.warning(
                "%s cannot be saved, so every start searches for them again: %s", self.what, error
            )
            return None
        return folder.path / name

    @property
    def _is_own(self) -> bool:
        """Return whether the folder is the user's; those of the hub and the package are not."""
        return self.assets.origin in ("local", "custom")

    def _read_beside(self) -> T | None:
        if not self._is_own or not os.path.lexists(self.path):
            return None
        try:
            return self.parse(read_json(self.path))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.path}: {error}; {self.remedy}") from error

    def _read_cached(self) -> T | None:
        """Return what is in the cache folder; without a usable file there, ``None``."""
        folder = KeptFolder(self.folder)
        path = folder.path
        try:
            if not folder.names():
                return None
            path /= self._cached_name()
            with folder.reading(path.name) as file:
                return self.parse(parse_json(file.read(LONGEST_JSON).decode("utf-8")))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning(
                "%s is not used, and %s are searched for again where they are needed; delete it "
                "if this goes on (%s)",
                path,
                self.what,
                error,
            )
            return None

    def _cached_name(self) -> str:
        about = [fingerprint(TensorFile(path)) for path in (self.assets.gpt, self.assets.embed)]
        return f"{hashlib.sha256(' '.join(about).encode()).hexdigest()}.json"
