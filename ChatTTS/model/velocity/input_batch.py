"""The inputs of one step of the model: positions of any sequences, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..llama.shard import Shard

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class HeadSet:
    """The attention that each draw of a sequence gives; equal only to itself.

    Attributes:
        layers, heads: int32 [n], of the attention heads, in the order of the request.
        columns: the number of text ids; the prompt begins with them.
    """

    layers: NDArray[np.int32]
    heads: NDArray[np.int32]
    columns: int


@dataclass(frozen=True)
class AttentionProbe:
    """The attention that a step gives: some heads of some rows, over the first positions.

    Its entries are ordered by row, then as the request orders its heads.

    Attributes:
        first: int32 [rows + 1]; the entries of row i of the batch are ``first[i]`` to
            ``first[i + 1]``.
        layers, heads: int32 [entries].
        columns: int32 [entries], how many positions of its sequence an entry covers, from the
            first one on; never more than the row's position + 1.
        starts: int64 [entries], where the columns of an entry begin in ``out``.
        out: float32, the attention probabilities; the model fills them in.
    """

    first: NDArray[np.int32]
    layers: NDArray[np.int32]
    heads: NDArray[np.int32]
    columns: NDArray[np.int32]
    starts: NDArray[np.int64]
    out: NDArray[np.float32]

    @classmethod
    def of(cls, rows: int, wanted: Sequence[tuple[int, HeadSet]]) -> AttentionProbe:
        """Return a probe of ``rows`` rows.

        Args:
            wanted: rows that give attention, ascending, each with its heads.
        """
        counts = np.zeros(rows + 1, dtype=np.int32)
        places = np.array([row for row, _ in wanted])
        heads = np.array([len(head_set.heads) for _, head_set in wanted])
        counts[places + 1] = heads
        columns = np.repeat(
            np.array([head_set.columns for _, head_set in wanted], dtype=np.int32), heads
        )
        ends: NDArray[np.int64] = columns.cumsum(dtype=np.int64)
        return cls(
            first=counts.cumsum(dtype=np.int32),
            layers=np.concatenate([head_set.layers for _, head_set in wanted]),
            heads=np.concatenate([head_set.heads for _, head_set in wanted]),
            columns=columns,
            starts=ends - columns,
            out=np.empty(int(ends[-1]), dtype=np.float32),
        )

    def again(self) -> AttentionProbe:
        """Return a probe of a step whose rows are laid out alike, with other memory."""
        return AttentionProbe(
            self.first,
            self.layers,
            self.heads,
            self.columns,
            self.starts,
            np.empty(len(self.out), dtype=np.float32),
        )

    def of_shard(self, shard: Shard) -> AttentionProbe:
        """Return the probe with layers and heads as a rank counts them, those of others as -1.

        The rank fills in its part of ``out``, which both share; the rest of it is 0.
        """
        if shard.ranks == shard.stages == 1:
            return self
        layers, heads = shard.layers, shard.heads
        is_own = np.isin(self.layers, layers) & np.isin(self.heads, heads)
        self.out[:] = 0
        return replace(
            self,
            layers=np.where(is_own, self.layers - layers.start, -1).astype(np.int32),
            heads=np.where(is_own, self.heads - heads.start, -1).astype(np.int32),
        )

    def row(self, row: int, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Return the attention of one row, float32 [heads, columns], as a view.

        Args:
            out: of another step whose rows were laid out alike; by default this one's.
        """
        out = self.out if out is None else out
        first, last = int(self.first[row]), int(self.first[row + 1])
        columns = int(self.columns[first])
        start = int(self.starts[first])
        return out[start : start + (last - first) * columns].reshape(last - first, columns)


@dataclass(frozen=True)
class InputBatch:
    """The inputs of a step. A row is one position of one sequence.

    Attributes:
        kinds: uint8 [rows], of :class:`~ChatTTS.model.embed.RowKind`.
        ids: int32 [rows, num_codebooks]: a text id or the index of a vector in the first column, or
            the codes of a frame.
        vectors: float32 [n, hidden], speaker vectors.
        positions: int32 [rows], in the sequence. The rows of a sequence are adjacent and ordered by
            position.
        tables: int32 [sequences, blocks], block tables: the physical blocks of each sequence. The
            entries behind its last block are not used.
        table_of: int32 [rows], the row of ``tables`` that belongs to the row's sequence.
        draws: int32 [n], the rows whose hidden states are wanted.
        probe: the attention that is wanted, or ``None``.
        adapter_of: int32 [rows], the number of each row's adapter, or -1; ``None`` if no row has
            one.
        given: [rows, hidden], what the stage before computed, in place of embedded rows; ``None``
            for the first stage.
    """

    kinds: NDArray[np.uint8]
    ids: NDArray[np.int32]
    vectors: NDArray[np.float32]
    positions: NDArray[np.int32]
    tables: NDArray[np.int32]
    table_of: NDArray[np.int32]
    draws: NDArray[np.int32]
    probe: AttentionProbe | None = None
    adapter_of: NDArray[np.int32] | None = None
    given: Tensor | None = None

    def __len__(self) -> int:
        return len(self.kinds)
