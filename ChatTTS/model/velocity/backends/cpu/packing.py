"""Weights as the kernels read them: packed once for a machine, then mapped from a file.

The result of packing a large model is kept in the cache folder, under a name that depends on the
checkpoint, the kernels and the precision. The next start verifies its checksum and maps it into
memory instead; see ``packed_files.py``.
"""

from __future__ import annotations

import hashlib
import mmap
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .....errors import OutOfThreadsError
from .....utils.cache_files import CacheFolder
from .....utils.progress import progress
from .....weights.fingerprint import PageChecksum, fingerprint
from ....kernels.cpu.library import ALIGNMENT, Team
from ....llama.config import MATRICES
from ....llama.shard import Shard
from ....llama.weights import LayerWeights, LlamaFile
from .packed_files import PackedFile, warn_not_kept

# Smaller models are packed so fast that a file is not worth it.
_MIN_CACHED = 64 << 20
# Smaller pieces of memory do not use huge pages.
_MIN_HUGE = 64 << 20
_NORMS = ("attention_norm", "mlp_norm")


class PackedLinear(nn.Module):
    """A linear layer without bias, computed by the CPU kernels.

    It maps float32 [n, inputs] to float32 [n, outputs].

    Args:
        team: the worker threads that run the kernels.
        weight: [outputs, inputs].
        kind: the format in which the weights are packed.
    """

    def __init__(self, team: Team, weight: Tensor, kind: str) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        self._team, self.kind = team, kind
        size = team.packed_bytes(kind, *weight.shape)
        self._packed = torch.empty(size, dtype=torch.uint8, device="cpu")
        team.pack(weight.float().contiguous(), kind, self._packed)

    def forward(self, rows: Tensor) -> Tensor:
        return self._team.product(rows.float(), self._packed, self.kind, self.out_features)


@dataclass(frozen=True, eq=False)
class PackedWeights:
    """All of a Llama's weights in one contiguous piece of memory.

    Attributes:
        data: uint8 [bytes].
        offsets: where each weight begins, by layer and name; the final norm is ``final_norm`` of
            layer -1. Matrices are packed, norms are float32.
    """

    data: Tensor
    offsets: Mapping[tuple[int, str], int]

    def address(self, layer: int, name: str) -> int:
        """Return the address of a weight."""
        return self.data.data_ptr() + self.offsets[layer, name]


@dataclass(frozen=True)
class _Source:
    """The weights to pack, the format, and the rank that computes with them."""

    file: LlamaFile
    kind: str
    shard: Shard


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
    team: Team, file: LlamaFile, kind: str, shard: Shard | None = None
) -> PackedWeights:
    """Return the packed weights of ``file``, from the cache or made now.

    What is made is written to the cache behind the caller's back, by a thread.

    Args:
        kind: ``float32``, ``bfloat16`` or ``int8``.
        shard: the rank whose weights are wanted; by default all are.
    """
    source = _Source(file, kind, shard or Shard(file.shape))
    layout = _layout(team, source)
    kept = _file(team, source, layout) if layout.size >= _MIN_CACHED else None
    if kept is not None:
        try:
            if (data := kept.mapped()) is not None:
                return PackedWeights(data, layout.offsets)
            kept.check_room()
        except (OSError, ValueError) as error:
            warn_not_kept(error)
            kept = None
    data = private_memory(layout.size)
    _pack(team, source, layout, data)
    if kept is not None:
        try:
            kept.write_behind(data)
        except OutOfThreadsError as error:
            warn_not_kept(error)
    return PackedWeights(data, layout.offsets)


def private_memory(size: int) -> Tensor:
    """Return zeros, uint8 [size]; a forked child gets a copy instead of writing into the parent's.

    With small pages the kernels would wait for address translation, so large pieces have huge ones
    where the system gives them. Memory is taken when it is first written.
    """
    if sys.platform == "win32":
        memory = mmap.mmap(-1, size)
    else:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE)
    if size >= _MIN_HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # the system's choice
            memory.madvise(mmap.MADV_HUGEPAGE)
    return torch.frombuffer(memory, dtype=torch.uint8)


def _layout(team: Team, source: _Source) -> _Layout:
    shard, kind = source.shard, source.kind
    hidden, inner = shard.shape.hidden_size, shard.shape.intermediate_size
    own_hidden, own_inner = len(shard.outputs(hidden)), len(shard.outputs(inner))
    queries = shard.shape.num_attention_heads * shard.shape.head_dim
    fused = (len(shard.heads) + 2 * len(shard.kv_heads)) * shard.shape.head_dim
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
    for layer in range(len(shard.layers)):
        start = end
        for name in (*MATRICES, *_NORMS):
            offsets[layer, name] = end
            end += sizes.get(name, norm)
        sections.append((start, end))
    offsets[-1, "final_norm"] = end
    return _Layout(offsets, (*sections, (end, end + norm)), end + norm)


def _pack(team: Team, source: _Source, layout: _Layout, data: Tensor) -> None:
    """Fill ``data``, which holds zeros, with all of the layout's weights."""
    for index, layer in _layers(source):
        for name in MATRICES:
            place = data[layout.offsets[index, name] :]
            team.pack(getattr(layer, name), source.kind, place)
        for name in _NORMS:
            _put(getattr(layer, name), data[layout.offsets[index, name] :])
    _put(source.file.final_norm(), data[layout.offsets[-1, "final_norm"] :])


def _put(values: Tensor, data: Tensor) -> None:
    data[: 4 * len(values)].view(torch.float32).copy_(values)


def _layers(source: _Source) -> Iterator[tuple[int, LayerWeights]]:
    layers = source.shard.layers
    with progress("packing weights", "layer", total=len(layers)) as bar:
        for index, layer in enumerate(layers):
            yield index, source.file.layer(layer, shard=source.shard)
            bar.update()


def _file(team: Team, source: _Source, layout: _Layout) -> PackedFile | None:
    """Return the place of the weights' file; None where no file can be kept."""
    folder = CacheFolder("packed")
    try:
        folder.remove_unfinished()
        # The kernels' name identifies the compiler and the machine as well.
        kernels = team.library.source.name
        content = fingerprint(source.file.tensors)
        about = (content, source.shard, source.kind, kernels, PageChecksum.format)
        name = hashlib.sha256(repr(about).encode()).hexdigest()[:24]
        ranks = source.shard.ranks * source.shard.stages
        return PackedFile(folder, name, layout.sections, ranks)
    except OSError as error:
        warn_not_kept(error)
        return None
