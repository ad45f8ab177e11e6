"""A safetensors file: opened once, checked as a whole, read tensor by tensor.

The format is eight bytes of length, a JSON header of so many bytes, and the tensors' bytes. Each
tensor is read into memory of its own. With a memory map, a file that shrinks would end the process.
Here that raises an error.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import AssetError, shown
from ..utils.locks import new_lock
from ..utils.untrusted import LONGEST_FILE, open_regular, parse_json

RESTORE = (
    "replace the file by a whole one (`chattts download --force` fetches the published "
    "checkpoint anew)"
)
# The published header is 20 kB long. Parsing takes up to a hundred times the bytes.
LONGEST_HEADER = 1 << 20
# The format allows no longer header, so a file with such a length has another format.
_FORMAT_ALLOWS = 100_000_000
_LENGTH_BYTES = 8
_MOST_DIMENSIONS = 8

_DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, known)
    for name, known in {
        "BOOL": "bool",
        "U8": "uint8",
        "I8": "int8",
        "U16": "uint16",
        "I16": "int16",
        "U32": "uint32",
        "I32": "int32",
        "U64": "uint64",
        "I64": "int64",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E5M2": "float8_e5m2",
        "F16": "float16",
        "BF16": "bfloat16",
        "F32": "float32",
        "F64": "float64",
        "C64": "complex64",
    }.items()
    if hasattr(torch, known)
}


@dataclass(frozen=True)
class TensorInfo:
    """A tensor's description in the header.

    Attributes:
        start: offset of its first byte in the file.
    """

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class TensorFile(Mapping[str, Tensor]):
    """The tensors of ``path`` by name; each access reads the tensor anew.

    The checked file stays open, so a file that replaces it later is not read.

    Args:
        remedy: what the user can do about a damaged file; the checkpoint's by default.

    Attributes:
        infos: the header's description of each tensor.

    Raises:
        AssetError: the file is missing, empty, cut off, damaged, endless or of another format.
            The message names the file, its format if the first bytes show it, and the remedy.
    """

    def __init__(self, path: Path, remedy: str = RESTORE) -> None:
        self.path, self._remedy = path, remedy
        try:
            self._file = open_regular(path, LONGEST_FILE)
        except FileNotFoundError:
            raise AssetError(
                f"{path} is missing. `chattts download` fetches the published checkpoint; for "
                "another one pass the folder that holds its asset/ as custom_path"
            ) from None
        except OSError as error:
            raise AssetError(
                f"{path} cannot be read ({error.strerror or error}); it must be a readable file"
            ) from error
        weakref.finalize(self, self._file.close)
        self._lock = new_lock()
        self.infos = self._read_header()

    @property
    def status(self) -> os.stat_result:
        """The present status of the open file."""
        return os.fstat(self._file.fileno())

    def __getitem__(self, name: str) -> Tensor:
        """Read a tensor, on the CPU.

        Raises:
            KeyError: there is no tensor of that name.
            AssetError: the file has become shorter.
        """
        info = self.infos[name]
        return self._read(info.dtype, info.shape, info.start)

    def rows(self, name: str, rows: range) -> Tensor:
        """Read adjacent rows of a tensor, and nothing else of it.

        Raises:
            KeyError, AssetError: as for a whole tensor.
        """
        info = self.infos[name]
        size = math.prod(info.shape[1:]) * info.dtype.itemsize
        shape = (len(rows), *info.shape[1:])
        return self._read(info.dtype, shape, info.start + rows.start * size)

    def _read(self, dtype: torch.dtype, shape: tuple[int, ...], start: int) -> Tensor:
        # torch cannot compute with truth values whose byte is neither 0 nor 1.
        stored = torch.uint8 if dtype is torch.bool else dtype
        tensor = torch.empty(shape, dtype=stored, device="cpu")
        if tensor.numel():
            self._fill(tensor.reshape(-1).view(torch.uint8).numpy().data, start)
        return tensor != 0 if dtype is torch.bool else tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.infos)

    def __len__(self) -> int:
        return len(self.infos)

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from offset ``start`` of the file.

        Raises:
            AssetError: the file has become shorter.
        """
        room = bytearray(count)
        self._fill(memoryview(room), start)
        return bytes(room)

    def _fill(self, room: memoryview, start: int) -> None:
        done = 0
        with self._lock:
            self._file.seek(start)
            while done < len(room):
                count = self._file.readinto(room[done:])  # type: ignore[attr-defined]
                if not count:
                    raise AssetError(f"{self.path} was cut off while it was read; {self._remedy}")
                done += count

    def _read_header(self) -> dict[str, TensorInfo]:
        size = self.status.st_size
        if not size:
            raise AssetError(f"{self.path} is empty; {self._remedy}")
        head = self.read(0, min(size, 512))
        foreign = _foreign_format(head)
        if foreign is not None:
            raise AssetError(f"{self.path} is {foreign}, not a safetensors file; {self._remedy}")
        length = int.from_bytes(head[:_LENGTH_BYTES], "little")
        try:
            if length > LONGEST_HEADER:
                raise ValueError(
                    f"its header has {length} bytes, and those of checkpoints have at most "
                    f"{LONGEST_HEADER}"
                )
            begin = _LENGTH_BYTES + length
            if begin > size:
                raise ValueError("its header is not all there")
            return _infos(_parsed(self.read(_LENGTH_BYTES, length)), begin, size)
        except ValueError as error:
            raise AssetError(
                f"{self.path} is damaged or cut off ({error}); {self._remedy}"
            ) from error


def _parsed(header: bytes) -> dict[str, Any]:
    values = parse_json(header.decode("utf-8"))
    if not isinstance(values, dict):
        raise ValueError("its header is not valid JSON object")
    values.pop("__metadata__", None)
    return values


def _infos(values: dict[str, Any], begin: int, size: int) -> dict[str, TensorInfo]:
    """Return the descriptions, checked: the tensors must fill the file without gaps or overlaps.

    Raises:
        ValueError: they do not.
    """
    infos = {name: _info(name, value, begin) for name, value in values.items()}
    end = begin
    for name, info in sorted(infos.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        if info.start != end:
            raise ValueError(f"{shown(name)} does not begin where the tensor before it ends")
        end += info.nbytes
        if end > size:
            raise ValueError(f"{shown(name)} is not all there")
    if end != size:
        raise ValueError(f"{size - end} bytes belong to no tensor")
    return infos


def _info(name: str, value: Any, begin: int) -> TensorInfo:
    try:
        kind, shape, (start, end) = value["dtype"], value["shape"], value["data_offsets"]
        dtype = _DTYPES[kind]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"its header describes no tensor {shown(name)}") from None
    numbers = [*shape, start, end] if isinstance(shape, list) else [None]
    # Strides are products of all sizes, and count a size of 0 as 1.
    if (
        len(numbers) > _MOST_DIMENSIONS + 2
        or not all(type(n) is int and 0 <= n <= LONGEST_FILE for n in numbers)
        or math.prod(max(n, 1) for n in shape) > LONGEST_FILE
    ):
        raise ValueError(f"its header gives {shown(name)} no possible shape and place")
    info = TensorInfo(dtype, tuple(shape), begin + start)
    if info.nbytes != end - start:
        raise ValueError(
            f"{shown(name)} has {end - start} bytes where its shape needs {info.nbytes}"
        )
    return info


def _foreign_format(head: bytes) -> str | None:
    """Return the format that the first bytes belong to, if it is not safetensors."""
    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
    # A pickle's first bytes (80 02) are also the header length 640: the ninth byte decides.
    if head[8:9] in (b"{", b"") and length <= _FORMAT_ALLOWS:
        return None
    if head.startswith(b"PK\x03\x04"):
        return "a zip archive or PyTorch pickle (pickles are never opened, they can run code)"
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return "a Python pickle (pickles are never opened, they can run code)"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer in place of the file itself (`git lfs pull` fetches it)"
    if head.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page (a server's answer in place of the file)"
    return "of an unknown format"
