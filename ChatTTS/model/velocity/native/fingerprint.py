"""What tells large files of weights apart without reading all of them.

A cache needs to know a checkpoint again. Path, size and time do not do: another checkpoint may have
all three, as where archives set one time for all files. Numbers of the file system differ between
the machines and containers that share a cache. So it is the content, of which every tensor gives
some pieces: a checkpoint that was trained further differs in all of them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_PIECE = 4096
_PAGE = 512  # words
_LONGEST_HEADER = 100 << 20  # as the format has it


def fingerprint(path: Path) -> str:
    """Of a safetensors file: its size and time, its header, and three pieces of each tensor.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no safetensors file.
    """
    status = path.stat()
    digest = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode())
    with path.open("rb") as file:
        header = _header(file)
        digest.update(header)
        begin = file.tell()
        for start, end in _places(header):
            for place in (start, (start + end - _PIECE) // 2, end - _PIECE):
                place = max(start, place)
                file.seek(begin + place)
                digest.update(file.read(min(_PIECE, end - place)))
    return digest.hexdigest()


def _header(file: BinaryIO) -> bytes:
    length = int.from_bytes(file.read(8), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"{file.name} is no safetensors file")
    return file.read(length)


def _places(header: bytes) -> list[tuple[int, int]]:
    """Where tensors begin and end, in the order in which they lie."""
    try:
        tensors = {key: about for key, about in json.loads(header).items() if key != "__metadata__"}
        return sorted((int(start), int(end)) for start, end in _offsets(tensors))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the header of a safetensors file cannot be read ({error!r})") from error


def _offsets(tensors: dict[str, dict[str, list[int]]]) -> list[list[int]]:
    return [about["data_offsets"] for about in tensors.values()]


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
