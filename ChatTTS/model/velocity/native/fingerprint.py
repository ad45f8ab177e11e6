"""What tells large files of weights apart without reading all of them.

A cache needs to know a checkpoint again. Path, size and time do not do: another checkpoint may have
all three, as where archives set one time for all files. Numbers of the file system differ between
the machines and containers that share a cache. So it is the content, of which every tensor gives
some pieces: a checkpoint that was trained further differs in all of them.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from ....checkpoints.tensor_file import TensorFile

_PIECE = 4096
_PAGE = 512  # words


def fingerprint(file: TensorFile) -> str:
    """Of a file of weights: its size and time, its header, and three pieces of each tensor.

    Raises:
        AssetError: the file has become shorter.
    """
    status = file.status
    digest = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns} {file.infos}".encode())
    for info in file.infos.values():
        count = min(_PIECE, info.nbytes)
        rest = info.nbytes - count
        for place in (0, rest // 2, rest):
            digest.update(file.read(info.start + place, count))
    return digest.hexdigest()


class Sums:
    """A hash of much data, as fast as memory: of the sums of its pages.

    It finds what happens to files (zeros, a lost or an older page, a bit), and is no proof against
    data that was made to deceive.
    """

    size = hashlib.sha256().digest_size

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, data: NDArray[np.uint8]) -> None:
        """Go on with ``data``: whole words of eight bytes; where it is cut makes a difference."""
        words = data.view(np.uint64)
        self._digest.update(np.add.reduceat(words, np.arange(0, len(words), _PAGE)).tobytes())

    def digest(self) -> bytes:
        """The hash of all so far."""
        return self._digest.digest()
