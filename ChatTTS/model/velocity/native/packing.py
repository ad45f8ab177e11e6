"""Weights as the kernels read them: packed once for a machine, then mapped from a file.

Packing a full-size model takes a second or more. The result is kept in the cache folder, under a
name that depends on the checkpoint, the kernels and the precision. The next start verifies its
checksum and maps it into memory instead.
"""

from __future__ import annotations

import hashlib
import logging
import mmap
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from ....utils.kept_files import KeptFolder, UnsafeFileError
from ....utils.progress import progress
from ...llama_weights import LayerWeights, LlamaFile
from ...native.library import ALIGNMENT, Team
from ...share import Share
from .fingerprint import PageChecksum, fingerprint

logger = logging.getLogger(__name__)

# Smaller models are packed so fast that a file is not worth it.
_LEAST_CACHED = 64 << 20
_FILES_KEPT = 4
_MATRICES = ("qkv", "out", "gate", "up", "down")
_NORMS = ("attention_norm", "mlp_norm")


class PackedWeights:
    """All of a Llama's weights in one contiguous piece of memory.

    Attributes:
        data: uint8 [bytes].
        offsets: where each weight begins, by layer and name; the final norm is ``final_norm`` of
            layer -1. Matrices are packed, norms are float32.
    """

    def __init__(self, data: Tensor, offsets: Mapping[tuple[int, str], int]) -> None:
        self.data = data
        self.offsets = offsets

    def address(self, layer: int, name: str) -> int:
        """Return the address of a weight."""
        return self.data.data_ptr() + self.offsets[layer, name]


@dataclass(frozen=True)
class _Source:
    """The weights to pack, the format, and the rank that computes with them."""

    file: LlamaFile
    kind: str
    share: Share


@dataclass(frozen=True)
class _Layout:
    """Places of weights: those of one layer side by side, and the final norm behind all layers.

    Attributes:
        offsets: see :class:`PackedWeights`.
        sections: where each layer, and at last the final norm, begins and ends.
        size: bytes of all sections.
    """

    offsets: Mapping[tuple[int, str], int]
    sections: tuple[tuple[int, int], ...]
    size: int


def packed_weights(
    team: Team, file: LlamaFile, kind: str, share: Share | None = None
) -> PackedWeights:
    """Return the packed weights of ``file``, from the cache or made now.

    Args:
        kind: ``float32``, ``bfloat16`` or ``int8``.
        share: the rank whose weights are wanted; by default all are.
    """
    source = _Source(file, kind, share or Share(file.shape))
    layout = _layout(team, source)
    data = _kept_or_made(team, source, layout) if layout.size >= _LEAST_CACHED else None
    if data is None:
        data = torch.zeros(layout.size, dtype=torch.uint8, device="cpu")
        for _ in _packed(team, source, layout, lambda start, end: data[start:end]):
            pass
    return PackedWeights(data, layout.offsets)


def _layout(team: Team, source: _Source) -> _Layout:
    share, kind = source.share, source.kind
    hidden, inner = share.shape.hidden_size, share.shape.intermediate_size
    own_hidden, own_inner = len(share.own(hidden)), len(share.own(inner))
    queries = share.shape.num_attention_heads * share.shape.head_dim
    fused = (len(share.heads) + 2 * len(share.kv_heads)) * share.shape.head_dim
    sizes = {
        "qkv": team.packed_bytes(kind, fused, hidden),
        "out": team.packed_bytes(kind, own_hidden, queries),
        "gate": team.packed_bytes(kind, own_inner, hidden),
        "up": team.packed_bytes(kind, own_inner, hidden),
        "down": team.packed_bytes(kind, own_hidden, inner),
    }
    norm = -(-4 * hidden // ALIGNMENT) * ALIGNMENT
    offsets: dict[tuple[int, str], int] = {}
    sections, end = [], 0
    for layer in range(len(share.layers)):
        start = end
        for name in (*_MATRICES, *_NORMS):
            offsets[layer, name] = end
            end += sizes.get(name, norm)
        sections.append((start, end))
    offsets[-1, "final_norm"] = end
    return _Layout(offsets, (*sections, (end, end + norm)), end + norm)


def _packed(
    team: Team,
    source: _Source,
    layout: _Layout,
    room: Callable[[int, int], Tensor],
) -> Iterator[Tensor]:
    """Yield each section of the layout, filled.

    Args:
        room: returns zeros for a section, given its begin and end.
    """
    *sections, (last, end) = layout.sections
    for (index, layer), (start, stop) in zip(_layers(source), sections, strict=True):
        data = room(start, stop)
        for name in _MATRICES:
            place = data[layout.offsets[index, name] - start :]
            team.pack(getattr(layer, name), source.kind, place)
        for name in _NORMS:
            _put(getattr(layer, name), data[layout.offsets[index, name] - start :])
        yield data
    data = room(last, end)
    _put(source.file.final_norm(), data)
    yield data


def _put(values: Tensor, data: Tensor) -> None:
    data[: 4 * len(values)].view(torch.float32).copy_(values)


def _layers(source: _Source) -> Iterator[tuple[int, LayerWeights]]:
    layers = source.share.layers
    with progress("packing weights", "layer", total=len(layers)) as bar:
        for index, layer in enumerate(layers):
            yield index, source.file.layer(layer, share=source.share)
            bar.update()


# ---------------------------------------------------------------- the file


def _kept_or_made(team: Team, source: _Source, layout: _Layout) -> Tensor | None:
    """Return the mapped file, written first if needed; None where no file can be kept."""
    folder = KeptFolder("packed")
    try:
        folder.remove_unfinished()
        name = _file_name(team, source)
        data = _mapped(folder, name, layout)
        if data is None:
            _write(team, source, layout, folder, name)
            data = _mapped(folder, name, layout)
        if data is None:
            raise OSError(f"{folder.path / name} was damaged as soon as it was written")
    except (OSError, ValueError) as error:
        logger.warning("packed weights are not kept, every start packs them anew: %s", error)
        return None
    _prune(folder, name)
    return data


def _file_name(team: Team, source: _Source) -> str:
    # The kernels' name identifies the compiler and the machine as well.
    kernels = team.library.source.name
    about = (fingerprint(source.file.tensors), source.share, source.kind, kernels)
    return hashlib.sha256(repr(about).encode()).hexdigest()[:24]


def _write(team: Team, source: _Source, layout: _Layout, folder: KeptFolder, name: str) -> None:
    """Write the sections one after another, and their checksum.

    They are not written through a memory map: if the disk became full, that would end the process.
    """
    folder.make()
    if shutil.disk_usage(folder.path).free < layout.size:  # so as not to pack for nothing
        raise OSError(f"{folder.path} has no room for {layout.size} bytes")
    sums = PageChecksum()

    def room(start: int, end: int) -> Tensor:
        return torch.zeros(end - start, dtype=torch.uint8, device="cpu")

    with folder.writing(name, mode=0o600) as written:  # the checkpoint may be a secret
        for data in _packed(team, source, layout, room):
            sums.update(data.numpy())
            written.write(data.numpy().data)
        written.write(sums.digest())


def _mapped(folder: KeptFolder, name: str, layout: _Layout) -> Tensor | None:
    """Return a kept file, mapped as a private copy; None if there is no undamaged one.

    Raises:
        OSError: no file can be kept there.
    """
    path = folder.path / name
    try:
        with folder.reading(name) as file:
            if os.fstat(file.fileno()).st_size != layout.size + PageChecksum.size:
                logger.warning("%s has another size than it should: packing anew", path)
                return None
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        return None
    except UnsafeFileError as error:
        logger.warning("%s: packing anew", error)
        return None
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    sums = PageChecksum()
    for start, end in layout.sections:
        sums.update(whole[start:end].numpy())
    if sums.digest() != whole[layout.size :].numpy().tobytes():
        logger.warning("%s was damaged: packing anew", path)
        return None
    return whole[: layout.size]


def _prune(folder: KeptFolder, newest: str) -> None:
    """Remove all but the few files that were used last."""
    with suppress(OSError):
        os.utime(folder.path / newest)
    times: dict[str, float] = {}
    with suppress(OSError):
        for name in folder.names():
            with suppress(OSError):  # another process does so, too
                times[name] = (folder.path / name).stat().st_mtime
    for name in sorted(times, key=times.__getitem__, reverse=True)[_FILES_KEPT:]:
        folder.remove(name)
