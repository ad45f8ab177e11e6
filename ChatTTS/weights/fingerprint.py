"""Identify large weight files without reading all of their bytes.

A cache must recognise a checkpoint. Path, size and modification time are not enough: archives that
set one time for all files give different checkpoints equal ones. Inode numbers differ between the
machines and containers that share a cache. So the fingerprint is taken from the content, some
pieces of every tensor: further training changes all of them.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from .tensor_file import TensorFile

_PIECE = 4096
_PAGE = 512  # words


def fingerprint(file: TensorFile) -> str:
    """Return a hash of a file's size and time, its header, and three pieces of each tensor.

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


class PageChecksum:
    """A hash of the sums of the data's pages and of their columns, as fast as memory is read twice.

    It detects accidental damage (zeros, a lost, moved or older page, a flipped bit, words in
    another order). It does not protect against data that was made to deceive.

    Attributes:
        format: of the data that is hashed; another one makes another hash of equal data.
    """

    format = "pages and columns"

    size = hashlib.sha256().digest_size

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def update(self, data: NDArray[np.uint8]) -> None:
        """Add ``data``, whole words of eight bytes; the result depends on how data is cut."""
        words = data.view(np.uint64)
        whole = len(words) - len(words) % _PAGE
        pages = words[:whole].reshape(-1, _PAGE)
        # The sum of a page does not depend on the order of its words; those of the columns do.
        for part in (pages.sum(axis=1), pages.sum(axis=0), words[whole:]):
            self._digest.update(part.tobytes())

    def digest(self) -> bytes:
        """Return the hash of the data so far."""
        return self._digest.digest()
