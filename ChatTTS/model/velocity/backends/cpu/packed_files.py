"""Files of packed weights: mapped at a start, and written behind the first one.

A first start computes from memory. Meanwhile a thread writes the file, which gets its name when it
is complete. The end of the process waits for that thread, but not for long where the disk is slow:
then nothing is left of the file.
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from functools import partial

import torch
from torch import Tensor

from .....errors import OutOfThreadsError
from .....utils.cache_files import CacheFolder, UnsafeFileError
from .....utils.process_hooks import finish_before_exit, start_thread
from .....weights.fingerprint import PageChecksum

logger = logging.getLogger(__name__)

WRITER = "chattts-packed-weights"  # the name of the threads that write
# As many models' files stay. A model has one for each rank.
FILES_KEPT = 4
# What is written at once: writing may be given up between two pieces.
_PIECE = 32 << 20
# How long the end of a process waits for its file. A short script would otherwise never keep one,
# since the thread hardly computes before.
_SECONDS_AT_EXIT = 5.0


class _GivenUpError(Exception):
    """The process ends, and the disk is slow."""


class _Patience:
    """The time that writing has, which is unlimited until the process ends."""

    def __init__(self) -> None:
        self._until = math.inf

    def limit(self) -> None:
        self._until = time.monotonic() + _SECONDS_AT_EXIT

    def check(self) -> None:
        if time.monotonic() > self._until:
            raise _GivenUpError


class PackedFile:
    """The file of one model's packed weights, which may not exist yet.

    Args:
        folder: where it is kept.
        name: of the file; it identifies all that its content depends on.
        sections: where each part of the weights begins and ends, one behind another.
        ranks: how many ranks have a file of the model each.
    """

    def __init__(
        self,
        folder: CacheFolder,
        name: str,
        sections: tuple[tuple[int, int], ...],
        ranks: int = 1,
    ) -> None:
        self._folder, self._name, self._sections = folder, name, sections
        self._kept = FILES_KEPT * ranks
        self._size = sections[-1][1]

    def mapped(self) -> Tensor | None:
        """Return the content, uint8 [bytes], as a private map; None if there is no undamaged file.

        Raises:
            OSError: no file can be kept there.
        """
        path = self._folder.path / self._name
        try:
            with self._folder.reading(self._name) as file:
                if os.fstat(file.fileno()).st_size != self._size + PageChecksum.size:
                    logger.warning("%s has the wrong size: the weights are packed again", path)
                    return None
                memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except FileNotFoundError:
            return None
        except UnsafeFileError as error:
            logger.warning("%s: the weights are packed again", error)
            return None
        whole = torch.frombuffer(memory, dtype=torch.uint8)
        sums = PageChecksum()
        for start, end in self._sections:
            sums.update(whole[start:end].numpy())
        if sums.digest() != whole[self._size :].numpy().tobytes():
            logger.warning("%s was damaged: the weights are packed again", path)
            return None
        self._prune()
        return whole[: self._size]

    def check_room(self) -> None:
        """Check that the file could be written.

        Raises:
            OSError: it could not.
        """
        self._folder.make()
        if shutil.disk_usage(self._folder.path).free < self._size:
            raise OSError(f"{self._folder.path} has no room for {self._size} bytes")

    def write_behind(self, data: Tensor) -> None:
        """Write ``data``, uint8 [bytes], which must not change, in a thread that this starts.

        A failure is logged. Several processes may write the file at once.

        Raises:
            OutOfThreadsError: the system gives no thread.
        """
        work = partial(self._write_or_warn, data)
        start_thread(threading.Thread(target=work, name=WRITER, daemon=True))

    def _write_or_warn(self, data: Tensor) -> None:
        patience = _Patience()
        _yield_to_others()
        with finish_before_exit(patience.limit), suppress(_GivenUpError):
            try:
                self._write(data, patience)
                self._prune()
            except OSError as error:
                warn_not_kept(error)

    def _write(self, data: Tensor, patience: _Patience) -> None:
        """Write the sections and their checksum, which also tells what a power failure damaged.

        They are not written through a memory map: if the disk became full, that would end the
        process.
        """
        sums = PageChecksum()
        # The checkpoint may be a secret.
        with self._folder.writing(self._name, mode=0o600, durable=False) as file:
            for start, end in self._sections:
                patience.check()
                sums.update(data[start:end].numpy())
            for start in range(0, self._size, _PIECE):
                patience.check()
                file.write(data[start : min(start + _PIECE, self._size)].numpy().data)
            file.write(sums.digest())

    def _prune(self) -> None:
        """Remove all but the few files that were used last."""
        with suppress(OSError):
            os.utime(self._folder.path / self._name)
        times: dict[str, float] = {}
        with suppress(OSError):
            for name in self._folder.names():
                with suppress(OSError):  # another process does so, too
                    times[name] = (self._folder.path / name).stat().st_mtime
        for name in sorted(times, key=times.__getitem__, reverse=True)[self._kept :]:
            self._folder.remove(name)


def _yield_to_others() -> None:
    """Let threads that speak compute first, where threads have priorities (Linux)."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def warn_not_kept(error: OSError | ValueError | OutOfThreadsError) -> None:
    """Log that there is no file of packed weights, and why."""
    logger.warning("packed weights cannot be kept, so every start packs them again: %s", error)
