"""Files kept between runs: written completely or not at all, and read only if they are ours.

The cache folder may be anywhere: in a container's volume, beside other users' files, on a full
disk. Its files save time and are never necessary, so each problem is an ``OSError`` after which the
caller works without them.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .folders import cache_folder

# The names of files that a killed process leaves behind begin with this.
UNFINISHED = "chattts-unfinished-"
# No file takes longer to write.
_SECONDS = 3600
_ROOT = 0
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class UnsafeFileError(OSError):
    """Raised for a file that another user may have written."""


class UnsafeFolderError(OSError):
    """Raised for a folder that another user may have filled; the message has the remedy."""


class CacheFolder:
    """A folder inside the cache folder, and the files in it.

    A folder or file counts as ours if this process's user or the administrator owns it and no other
    user may write to it. The parent folders are not checked: their owners can replace our folder or
    file, but cannot make the replacement ours. Windows has no such owners and modes, so nothing is
    checked there.

    Attributes:
        path: of the folder, which may not exist.

    Args:
        name: of the folder.
    """

    def __init__(self, name: str) -> None:
        self.path = cache_folder() / name

    def names(self) -> list[str]:
        """Return the sorted names of its finished files; none where it does not exist.

        Raises:
            OSError: the folder cannot be read, or is not ours.
        """
        if not self.path.exists():
            return []
        self._check()
        return sorted(name for name in os.listdir(self.path) if not name.startswith(UNFINISHED))

    @contextmanager
    def reading(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for reading.

        Raises:
            FileNotFoundError: it does not exist.
            UnsafeFileError: the file is not ours.
            OSError: it cannot be read, or the folder is not ours.
        """
        self._check()
        path = self.path / name
        # A link may point to another file of ours, and a pipe would block.
        flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | flags)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnsafeFileError(f"{path} is a link") from error
            raise
        try:
            status = os.fstat(handle)
            reason = _why_not_ours(status) if stat.S_ISREG(status.st_mode) else "is no file"
            if reason is not None:
                raise UnsafeFileError(f"{path} {reason}")
            with os.fdopen(handle, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(handle)

    @contextmanager
    def writing(self, name: str, mode: int = 0o644, durable: bool = True) -> Iterator[BinaryIO]:
        """Open a file for writing, which gets its name once it is complete.

        Where several processes write a file of that name at once, the last one stays. An exception
        leaves no file behind.

        Args:
            mode: the file's permissions, less those that the umask removes.
            durable: see :func:`atomic_write`.

        Raises:
            OSError: there is no space or no permission, or the folder is not ours.
        """
        self.make()
        self.remove_unfinished()
        with atomic_write(self.path / name, mode, durable) as file:
            yield file

    def make(self) -> None:
        """Create the folder where it is missing.

        Raises:
            OSError: it cannot be created, or is not ours.
        """
        self.path.parent.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.path.parent, self.path):
            folder.mkdir(mode=0o755, exist_ok=True)
        self._check()

    def remove(self, name: str) -> None:
        """Delete a file, if possible."""
        with suppress(OSError):
            (self.path / name).unlink()

    def remove_unfinished(self) -> None:
        """Delete old unfinished files of processes that were killed."""
        remove_unfinished(self.path)

    def _check(self) -> None:
        for folder in (self.path.parent, self.path):
            reason = _whose_link(folder.lstat())
            if reason is None:
                reason = _why_not_ours(folder.stat())
                if reason is None:
                    continue
                # A permissive umask may have caused it.
                with suppress(OSError):
                    folder.chmod(stat.S_IMODE(folder.stat().st_mode) & ~_BY_OTHERS)
                reason = _why_not_ours(folder.stat())
            if reason is not None:
                raise UnsafeFolderError(
                    f"the cache folder {folder} {reason}: delete it, remove that permission from "
                    "others (chmod go-w), or name another folder in the environment variable "
                    "XDG_CACHE_HOME"
                )


@contextmanager
def atomic_write(target: Path, mode: int = 0o644, durable: bool = True) -> Iterator[BinaryIO]:
    """Open a file for writing in an existing folder; it gets its name once it is complete.

    An exception leaves an earlier file of that name as it was.

    Args:
        mode: the file's permissions, less those that the umask removes.
        durable: the content is on the disk before the name is. Otherwise a power failure may leave
            zeros under the name, and the reader must notice them.

    Raises:
        OSError: there is no space or no permission.
    """
    path = target.parent / (UNFINISHED + secrets.token_hex(8))
    try:
        # Also for reading: what signs a file checks it before it is complete.
        with open(path, "x+b", opener=lambda name, given: os.open(name, given, mode)) as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        path.replace(target)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    if durable:
        with suppress(OSError):  # not on every system; only the new name could be lost
            _sync_folder(target.parent)


def remove_unfinished(folder: Path) -> None:
    """Delete this user's files and folders in ``folder`` that begin with ``UNFINISHED``, if old."""
    oldest = time.time() - _SECONDS
    try:
        found = [path for path in folder.iterdir() if path.name.startswith(UNFINISHED)]
    except OSError:
        return
    for path in found:
        with suppress(OSError):
            status = path.lstat()
            if status.st_mtime > oldest or _is_of_another(status):
                continue
            if stat.S_ISDIR(status.st_mode):
                shutil.rmtree(path)  # follows no links
            else:
                path.unlink()


def _why_not_ours(status: os.stat_result) -> str | None:
    """Return what is wrong with the owner or mode of a file or folder; None if nothing is."""
    if _is_of_another(status) and status.st_uid != _ROOT:
        return f"belongs to another user (number {status.st_uid})"
    if hasattr(os, "geteuid") and status.st_mode & _BY_OTHERS:
        return f"may be written by other users (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _whose_link(status: os.stat_result) -> str | None:
    """Return whose a link is that another user made; None for our links and for other files."""
    if stat.S_ISLNK(status.st_mode) and _is_of_another(status) and status.st_uid != _ROOT:
        return f"is a link of another user (number {status.st_uid})"
    return None


def _is_of_another(status: os.stat_result) -> bool:
    return hasattr(os, "geteuid") and status.st_uid != os.geteuid()


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
