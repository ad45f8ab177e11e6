"""Weights as the kernels read them: packed once for a machine, then mapped from a file.

The result of packing a large model is kept in the cache folder, under a name that depends on the
checkpoint, the kernels and the precision. The next start verifies its checksum and maps it into
memory instead; see ``packed_files.py``.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from .....errors import OutOfThreadsError
from .....utils.kept_files import KeptFolder
from .....utils.progress import progress
from ....kernels.cpu.library import ALIGNMENT, Team
from ....llama.config import MATRICES
from ....llama.shard import Shard
from ....llama.weights import LayerWeights, LlamaFile
from .fingerprint import PageChecksum, fingerprint
from .memory import private_memory
from .packed_files import PackedFile, warn_not_kept

# Smaller models are packed so fast that a file is not worth it.
_LEAST_CACHED = 64 << 20
_NORMS = ("attention_norm", "mlp_norm")


class PackedWeights:
    """All of a Llama's weights in one contiguous piece of memory.

    Attributes:
        data: uint8 [bytes].
        offsets: where each weight begins, by layer and name; the final norm is ``final_norm`` of
            layer -1. Matrices are packed, norms are float32.

    Args:
        writer: the thread that writes their file, if there is one.
    """

    def __init__(
        self,
        data: Tensor,
        offsets: Mapping[tuple[int, str], int],
        writer: threading.Thread | None = None,
    ) -> None:
        self.data = data
        self.offsets = offsets
        self._writer = writer

    def address(self, layer: int, name: str) -> int:
        """Return the address of a weight."""
        return self.data.data_ptr() + self.offsets[layer, name]

    def wait_for_file(self) -> None:
        """Wait until the file of these weights is written, if it is being written."""
        if self._writer is not None:
            self._writer.join()


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
    kept = _file(team, source, layout) if layout.size >= _LEAST_CACHED else None
    if kept is not None:
        try:
            if (data := kept.mapped()) is not None:
                return PackedWeights(data, layout.offsets)
            kept.check_room()
        except (OSError, ValueError) as error:
            warn_not_kept(error)
            kept = None
    data = private_memory(layout.size)
    for _ in _packed(team, source, layout, lambda start, end: data[start:end]):
        pass
    return PackedWeights(data, layout.offsets, _written_behind(kept, data))


def _written_behind(kept: PackedFile | None, data: Tensor) -> threading.Thread | None:
    if kept is None:
        return None
    try:
        return kept.write_behind(data)
    except OutOfThreadsError as error:
        warn_not_kept(error)
        return None


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
        for name in MATRICES:
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
    layers = source.shard.layers
    with progress("packing weights", "layer", total=len(layers)) as bar:
        for index, layer in enumerate(layers):
            yield index, source.file.layer(layer, shard=source.shard)
            bar.update()


def _file(team: Team, source: _Source, layout: _Layout) -> PackedFile | None:
    """Return the place of the weights' file; None where no file can be kept."""
    folder = KeptFolder("packed")
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
