"""A folder that one process at a time uses; the system frees it when that process ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_NAME = "lock"


class FolderLock:
    """The right to use a folder, held until :meth:`release` or the end of the process.

    Args:
        folder: an existing folder, in which the lock's file is made.

    Raises:
        BlockingIOError: another process, or another lock of this one, holds it.
        OSError: the file cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._file: BinaryIO = (folder / _NAME).open("ab")
        try:
            _lock(self._file.fileno())
        except BaseException:
            self._file.close()
            raise

    def release(self) -> None:
        """Let others use the folder; a second call does nothing."""
        self._file.close()


def _lock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except PermissionError as error:
            raise BlockingIOError(error.errno, "another process holds it") from error
        return
    import fcntl

    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
