"""Compare a checkpoint's files with the published hashes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..config import published_facts
from ..errors import AssetError
from ..utils.cache_files import CacheFolder
from ..utils.progress import Bar
from ..utils.untrusted import LONGEST_FILE, LONGEST_JSON, open_regular, parse_json
from .assets import AssetFolder

logger = logging.getLogger(__name__)

# Where known hashes are kept, in the cache folder.
_FOLDER, _FILE = "hashes", "sha256.json"

Status = Literal["ok", "different", "missing", "unknown"]

# Files that a checkpoint may have, and the published one has not.
_OPTIONAL = (
    "asset/config.json",
    "asset/homophones_map.json",
    "asset/alignment_heads.json",
    "asset/speech_lengths.json",
)
# Hashing smaller files takes no noticeable time; the hashes of larger ones are remembered.
_REMEMBERED_FROM = 32 * 2**20
_BLOCK = 2**20


@dataclass(frozen=True)
class FileCheck:
    """One file and its published sha256; None where there is no such hash or no such file."""

    name: str
    expected: str | None
    found: str | None

    @property
    def status(self) -> Status:
        """The result; ``unknown`` is an existing file without a published hash."""
        if self.found is None:
            return "missing"
        if self.expected is None:
            return "unknown"
        return "ok" if self.found == self.expected else "different"


@dataclass(frozen=True)
class Verification:
    """The result of :func:`verify`, file by file."""

    folder: AssetFolder
    files: tuple[FileCheck, ...]

    @property
    def ok(self) -> bool:
        """Return whether all published files are there, unchanged."""
        return all(file.status not in ("different", "missing") for file in self.files)


def verify(folder: AssetFolder, *, again: bool = True) -> Verification:
    """Hash the files of ``folder``, with a progress bar when that takes a while.

    The bundled voice has no published hashes: each of its files is ``unknown``.

    Args:
        again: hash also a large file that was hashed before and whose size and time stay.
    """
    remembered: dict[str, list[Any]] = {} if again else _recall()
    hashed = dict(remembered)
    checks = _check_files(folder, hashed)
    if hashed != remembered:
        _remember({**_recall(), **hashed})
    return Verification(folder, tuple(checks))


def check_hashes(folder: AssetFolder) -> None:
    """Compare ``folder`` with the published checkpoint before it is loaded.

    Files from the hub must equal the published ones. In other checkpoints a difference is one
    warning, since users may have their own. The bundled voice is not checked. A large file is not
    hashed again while its size and time stay; :func:`verify` hashes every file.

    Raises:
        AssetError: files from the hub differ; the message has both hashes of each.
    """
    if folder.origin == "bundled":
        return
    remembered = _recall()
    memory = dict(remembered)
    own = folder.origin != "huggingface"
    checks = _check_files(folder, memory, stop_at_difference=own)
    if memory != remembered:
        _remember(memory)
    different = [check for check in checks if check.status == "different"]
    if not different:
        return
    if own:
        logger.warning(
            "%s is not the published checkpoint (%s differs); loading it as a custom one",
            folder.asset,
            different[0].name,
        )
        return
    named = "; ".join(
        f"{check.name} should have sha256 {check.expected} but has {check.found}"
        for check in different
    )
    raise AssetError(
        f"{folder.asset} is not the published checkpoint: {named}. Run `chattts download "
        "--force` to download it again; to use these files all the same, pass source='custom', "
        f"custom_path={str(folder.path)!r}"
    )


def _check_files(
    folder: AssetFolder, memory: dict[str, list[Any]], *, stop_at_difference: bool = False
) -> list[FileCheck]:
    """Hash the files of ``folder``, small ones first, and keep hashes of large ones in ``memory``.

    The order makes ``stop_at_difference`` cheap: a custom checkpoint usually differs early.
    """
    published: dict[str, str] = published_facts()["sha256"]
    own = folder.origin == "bundled"
    expected = {name: None if own else value for name, value in published.items()}
    expected |= {name: None for name in _OPTIONAL if folder.file(name).is_file()}

    sizes = {
        name: folder.file(name).stat().st_size for name in expected if folder.file(name).is_file()
    }
    checks = [FileCheck(name, expected[name], None) for name in expected if name not in sizes]
    with Bar(
        desc="checking hashes",
        total=sum(sizes.values()),
        unit="B",
        unit_scale=True,
        delay=2.0,
        leave=False,
        disable=None,
    ) as bar:
        for name in sorted(sizes, key=lambda name: sizes[name]):
            check = FileCheck(name, expected[name], _remembered(folder.file(name), memory, bar))
            checks.append(check)
            if stop_at_difference and check.status == "different":
                break
    return checks


def sha256(path: Path, advance: Callable[[int], object] = lambda size: None) -> str:
    """Return the hash of a file, in hexadecimal digits.

    Args:
        advance: called with the number of bytes of each block that was read.

    Raises:
        AssetError: the file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open_regular(path, LONGEST_FILE) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                advance(len(block))
    except OSError as error:
        raise AssetError(f"{path} cannot be read ({error.strerror or error})") from error
    return digest.hexdigest()


def _remembered(path: Path, memory: dict[str, list[Any]], bar: Bar) -> str:
    """Return the hash of a file, from ``memory`` unless the file has changed."""
    stat, key = path.stat(), str(path.resolve())
    state = [stat.st_size, stat.st_mtime_ns]
    known = memory.get(key, [])
    if known[:2] == state:
        bar.update(stat.st_size)
        return str(known[2])
    found = sha256(path, bar.update)
    if stat.st_size >= _REMEMBERED_FROM:
        memory[key] = [*state, found]
    return found


def _recall() -> dict[str, list[Any]]:
    """Read the known hashes: path to [bytes, time of change in ns, sha256]."""
    try:
        with CacheFolder(_FOLDER).reading(_FILE) as file:
            memory = parse_json(file.read(LONGEST_JSON).decode("utf-8"))
        return {path: [size, time, str(found)] for path, (size, time, found) in memory.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}  # no trusted cache: the files are hashed again


def _remember(memory: dict[str, list[Any]]) -> None:
    """Write the hashes of files that still exist; failing to write them is no error."""
    kept = {path: entry for path, entry in memory.items() if os.path.exists(path)}
    try:
        with CacheFolder(_FOLDER).writing(_FILE) as file:
            file.write(json.dumps(kept, indent=1).encode("utf-8"))
    except OSError as error:
        logger.info("the hashes cannot be saved: %s", error)
