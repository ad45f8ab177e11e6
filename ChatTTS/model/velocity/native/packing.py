"""Weights as the kernels read them: packed once for a machine, then mapped from a file.

Packing all of a full-size model takes a second or more. The result lies in the cache folder under
a name that depends on the checkpoint's file, on the kernels and on the precision, and the next
start maps it into memory instead.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor

from ....folders import cache_folder
from ....progress import progress
from ...llama_config import LlamaShape
from ...native import build
from ...native.library import ALIGNMENT, Team
from ..weights import LayerWeights, LlamaFile

logger = logging.getLogger(__name__)

# Smaller models are packed faster than they are worth a file.
_LEAST_CACHED = 64 << 20
_FILES_KEPT = 4
_MATRICES = ("qkv", "out", "gate", "up", "down")
_NORMS = ("attention_norm", "mlp_norm")


class PackedWeights:
    """All of a Llama's weights in one stretch of memory.

    Attributes:
        data: uint8.
        offsets: where each weight begins, by layer and name; the last norm is layer -1's
            ``final_norm``. Matrices are packed, norms are float32.
    """

    def __init__(self, data: Tensor, offsets: Mapping[tuple[int, str], int]) -> None:
        self.data = data
        self.offsets = offsets

    def address(self, layer: int, name: str) -> int:
        """Where a weight lies in memory."""
        return self.data.data_ptr() + self.offsets[layer, name]


def packed_weights(team: Team, file: LlamaFile, kind: str) -> PackedWeights:
    """The packed weights of ``file``, from the cache or made now.

    Args:
        kind: ``float32``, ``bfloat16`` or ``int8``.
    """
    offsets, size = _layout(team, file.shape, kind)
    if size < _LEAST_CACHED:
        return PackedWeights(
            _packed(team, file, kind, offsets, torch.empty(size, dtype=torch.uint8)), offsets
        )
    path = _cache_file(file, kind)
    try:
        if not path.exists() or path.stat().st_size != size:
            _write(team, file, kind, offsets, size, path)
            _prune(path)
        os.utime(path)
        data = _mapped(str(path), size, shared=False)
    except (OSError, RuntimeError) as error:
        logger.info("packed weights are not kept: %s", error)
        data = _packed(team, file, kind, offsets, _room(size))
    return PackedWeights(data, offsets)


def _room(size: int) -> Tensor:
    return torch.empty(size, dtype=torch.uint8)


def _mapped(name: str, size: int, *, shared: bool) -> Tensor:
    """A file in memory; with ``shared`` what is written reaches the file."""
    return torch.from_file(name, shared=shared, size=size, dtype=torch.uint8)


def _layout(team: Team, shape: LlamaShape, kind: str) -> tuple[dict[tuple[int, str], int], int]:
    """Offsets of all weights, and the size of the whole."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    queries = shape.num_attention_heads * shape.head_dim
    fused = queries + 2 * shape.num_key_value_heads * shape.head_dim
    sizes = {
        "qkv": team.packed_bytes(kind, fused, hidden),
        "out": team.packed_bytes(kind, hidden, queries),
        "gate": team.packed_bytes(kind, inner, hidden),
        "up": team.packed_bytes(kind, inner, hidden),
        "down": team.packed_bytes(kind, hidden, inner),
    }
    norm = -(-4 * hidden // ALIGNMENT) * ALIGNMENT
    offsets, end = {}, 0
    for layer in range(shape.num_hidden_layers):
        for name in (*_MATRICES, *_NORMS):
            offsets[layer, name] = end
            end += sizes.get(name, norm)
    offsets[-1, "final_norm"] = end
    return offsets, end + norm


def _packed(
    team: Team,
    file: LlamaFile,
    kind: str,
    offsets: Mapping[tuple[int, str], int],
    data: Tensor,
) -> Tensor:
    """``data``, filled."""

    def put(values: Tensor, key: tuple[int, str]) -> None:
        start = offsets[key]
        data[start : start + 4 * len(values)].view(torch.float32).copy_(values)

    for index, layer in _layers(file):
        for name in _MATRICES:
            team.pack(getattr(layer, name), kind, data[offsets[index, name] :])
        for name in _NORMS:
            put(getattr(layer, name), (index, name))
    put(file.final_norm(), (-1, "final_norm"))
    return data


def _layers(file: LlamaFile) -> Iterator[tuple[int, LayerWeights]]:
    with progress("packing weights", "layer", total=file.shape.num_hidden_layers) as bar:
        for index in range(file.shape.num_hidden_layers):
            yield index, file.layer(index)
            bar.update()


def _cache_file(file: LlamaFile, kind: str) -> Path:
    status = file.status
    about = (
        file.path.resolve(),
        status.st_size,
        status.st_mtime_ns,
        file.shape,
        kind,
        build.library().name,  # the kernels, the compiler and the machine
    )
    return cache_folder() / "packed" / hashlib.sha256(repr(about).encode()).hexdigest()[:24]


def _write(
    team: Team,
    file: LlamaFile,
    kind: str,
    offsets: Mapping[tuple[int, str], int],
    size: int,
    path: Path,
) -> None:
    """Make the file under another name, and put it there whole: others may do so as well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="unfinished-")
    os.close(handle)
    try:
        if shutil.disk_usage(path.parent).free < size:  # a mapped page could not say so
            raise OSError(f"{path.parent} has no room for {size} bytes")
        os.truncate(name, size)
        _packed(team, file, kind, offsets, _mapped(name, size, shared=True))
        with Path(name).open("rb+") as written:  # or a power cut could leave zeros under the name
            os.fsync(written.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _prune(newest: Path) -> None:
    """Keep the few files that were used last."""
    files = sorted(newest.parent.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[_FILES_KEPT:]:
        with suppress(OSError):
            file.unlink()
