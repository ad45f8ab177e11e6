"""The inputs of sequences, and those of one step: positions of any sequences, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..embed import RowKind
from ..generation import GenerationRequest
from ..llama.shard import Shard
from ..processors import PENALTY_WINDOW
from ..random_numbers import Pass
from ..sampling import SamplingRow
from .plan import Work

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


class SequenceState:
    """The inputs of one sequence, of the prompt and drawn ones alike, position by position.

    So computing a position again after a preemption is no special case.

    Attributes:
        kinds: uint8 [capacity], of :class:`~ChatTTS.model.embed.RowKind`.
        ids: int32 [capacity, num_codebooks].
        length: number of positions whose inputs are known.
        heads: those whose attention each draw gives, or ``None``.
        adapter: the number of its adapter, or -1.
    """

    def __init__(
        self, request: GenerationRequest, num_codebooks: int, max_positions: int, adapter: int = -1
    ) -> None:
        prompt = request.prompt
        capacity = min(max_positions, len(prompt) + request.sampling.max_new)
        self.request, self.adapter = request, adapter
        self.prompt_length = self.length = len(prompt)
        self.kinds = np.full(capacity, RowKind.CODE, dtype=np.uint8)
        self.ids = np.zeros((capacity, num_codebooks), dtype=np.int32)
        texts = len(prompt.text)
        self.kinds[:texts] = RowKind.TEXT
        self.ids[:texts, 0] = prompt.text
        if len(prompt.codes):
            self.ids[texts : len(prompt)] = prompt.codes
        self.vectors = 0
        if prompt.speaker is not None:
            slots = np.flatnonzero(prompt.speaker_slots)
            self.kinds[slots] = RowKind.VECTOR
            self.vectors = int(slots[-1]) + 1 if len(slots) else 0
        if request.key.kind is Pass.REFINE:
            self.kinds[len(prompt) :] = RowKind.TEXT
        self.heads: HeadSet | None = None
        if request.alignment_heads:
            layers, heads = np.array(request.alignment_heads, dtype=np.int32).T.copy()
            self.heads = HeadSet(layers, heads, texts)

    def append(self, ids: NDArray[np.int64]) -> None:
        """Take drawn ids [n, 1 or num_codebooks] as the next inputs.

        Those of the last position are never needed.
        """
        places = self.ids[self.length : self.length + len(ids), : ids.shape[1]]
        places[:] = ids[: len(places)]
        self.length += len(places)

    def sampling_row(self, end: int) -> SamplingRow:
        """Return the sampler's input for the next ids.

        Args:
            end: the id that ends a sequence.
        """
        start = max(self.prompt_length, self.length - PENALTY_WINDOW)
        return SamplingRow(
            self.request.sampling,
            self.request.key,
            self.length - self.prompt_length,
            self.ids[start : self.length],
            end,
        )


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

    @classmethod
    def of(cls, works: Sequence[Work], states: Sequence[SequenceState], hidden: int) -> InputBatch:
        """Return the rows of all the work, one sequence after another.

        Args:
            works: at least one.
            states: of their sequences.
            hidden: the size of a vector.
        """
        starts, counts, widest = [], [], 0
        for work in works:
            starts.append(work.start)
            counts.append(work.count)
            widest = max(widest, len(work.block_table))
        ends = np.add.accumulate(counts)
        rows = int(ends[-1])
        kinds = np.empty(rows, dtype=np.uint8)
        ids = np.empty((rows, states[0].ids.shape[1]), dtype=np.int32)
        tables = np.zeros((len(works), widest), dtype=np.int32)
        vectors: list[NDArray[np.float32]] = []
        adapters: list[int] = []
        draws: list[int] = []
        end = 0
        for index, (work, state) in enumerate(zip(works, states, strict=True)):
            start, stop = work.start, work.start + work.count
            first, end = end, end + work.count
            kinds[first:end] = state.kinds[start:stop]
            ids[first:end] = state.ids[start:stop]
            tables[index, : len(work.block_table)] = work.block_table
            adapters.append(state.adapter)
            if work.draws:
                draws.append(end - 1)
            if start < state.vectors:
                assert state.request.prompt.speaker is not None
                ids[first:end, 0][kinds[first:end] == RowKind.VECTOR] = len(vectors)
                vectors.append(state.request.prompt.speaker)
        offsets = (np.array(starts) - ends + counts).astype(np.int32)
        table_of = np.arange(len(works), dtype=np.int32).repeat(counts)
        return cls(
            kinds=kinds,
            ids=ids,
            vectors=np.array(vectors, dtype=np.float32).reshape(-1, hidden),
            positions=np.arange(rows, dtype=np.int32) + offsets[table_of],
            tables=tables,
            table_of=table_of,
            draws=np.array(draws, dtype=np.int32),
            adapter_of=(
                np.array(adapters, dtype=np.int32).repeat(counts) if max(adapters) >= 0 else None
            ),
        )
