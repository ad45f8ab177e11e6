"""Decode steps that are recorded as one graph: last ids in, hidden states and next ids out.

The inputs of a step are on the device at fixed addresses, and a step writes the inputs of the next
one there. So steps follow one another without the host, which reads their results later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....cuda.failures import patience, wait_for
from ....cuda.graphs import Recorder, Recording
from ....draws import Pass
from ....embed import Embed, RowKind
from ....kernels.cuda.sampling import DrawState, draw_codes, pack_draws
from ....kernels.cuda.step_results import result_width, store_results
from ....sampling import Draw
from ...input_batch import HeadSet
from ...layers import Llama
from ...plan import Pending, StepResult
from .operations import AttentionMetadata, TritonOperations
from .slots import SlotMap, SlotRows
from .text_attention import PlanAttention, TextAttention

# Plans in flight: the host makes the next one while the device carries out the last one.
DEPTH = 2
# The most steps of a plan. With more of them the host has less to do, and new requests wait longer.
MAX_STEPS = 8
# Steps whose results are kept for the host: more than can be in flight, and a power of two.
_KEPT_STEPS = 1 << (DEPTH * MAX_STEPS).bit_length()


@dataclass(frozen=True)
class DecodeInput:
    """The input of one sequence that joins the decode steps.

    Attributes:
        seq_id: the sequence's id.
        position: the position of its last ids, which are the input.
        ids: the last ids, int32 [num_codebooks]; a text id is in the first column.
        draw: how to draw the next ids.
        kind: what the input is embedded from.
        vector: float32 [hidden], the input if ``kind`` is ``VECTOR``.
        adapter: the number of the sequence's adapter, or -1.
    """

    seq_id: int
    position: int
    ids: NDArray[np.int32]
    draw: Draw
    kind: RowKind = RowKind.CODE
    vector: NDArray[np.float32] | None = None
    adapter: int = -1


class DecodeSteps:
    """The sequences of one pass on the device, and their recorded decode steps.

    Args:
        llama: the layers.
        embed: embedding tables and heads.
        pool: the KV cache's blocks.
        recorder: records a step for each bucket.
        max_rows: how many sequences may decode together.
        max_positions: how many positions a sequence may have.
        kind: the pass: frames or text ids are drawn.
        end: the id that ends a sequence; by default that of the codes.
        attention: gives the attention of sequences; without it none can be asked for.
    """

    def __init__(
        self,
        llama: Llama[TritonOperations],
        embed: Embed,
        pool: Tensor,
        recorder: Recorder,
        *,
        max_rows: int,
        max_positions: int,
        kind: Pass = Pass.CODE,
        end: int | None = None,
        attention: TextAttention | None = None,
    ) -> None:
        device, num_codebooks = pool.device, embed.num_codebooks
        self._llama, self._embed, self._pool, self._recorder = llama, embed, pool, recorder
        self._max_positions, self._attention = max_positions, attention
        self._is_code = kind is Pass.CODE
        self._end = embed.end_of_speech if end is None else end
        self._drawn_width = num_codebooks if self._is_code else 1
        width = -(-max_positions // pool.shape[4])
        rows = max_rows + 1  # the last one is for padded writes
        whole: dict[str, Any] = {"dtype": torch.int32, "device": device}
        self._kinds = torch.zeros(rows, dtype=torch.uint8, device=device)
        self._vectors = torch.zeros(
            rows, embed.code.weight.shape[1], dtype=torch.float32, device=device
        )
        self._ids = torch.zeros(rows, num_codebooks, **whole)
        self._positions = torch.zeros(rows, **whole)
        self._tables = torch.zeros(rows, width, **whole)
        self._table_of = torch.full((rows,), -1, **whole)
        self._adapter_of = torch.full((rows,), -1, **whole)
        # 1 for a row with a sequence. Steps would advance the counters of all other rows until they
        # overflow, in a server that never fills a bucket.
        self._active = torch.zeros(rows, **whole)
        self._state = DrawState.zeros(rows, self._drawn_width, device)
        self._drawn = self._ids if self._is_code else torch.zeros(rows, 1, **whole)
        self._logprobs = torch.zeros(rows, self._drawn_width, dtype=torch.float32, device=device)
        self._finite = torch.zeros(rows, dtype=torch.uint8, device=device)
        # Steps write their results into the host's memory in turn: nothing is copied behind them.
        self._turn = torch.zeros(1, **whole)
        self._turns = 0
        self._results = torch.zeros(
            _KEPT_STEPS,
            max_rows,
            result_width(self._vectors.shape[1], self._drawn_width),
            dtype=torch.int32,
            device="cpu",
            pin_memory=device.type == "cuda",
        )
        self._rows = SlotRows(
            {
                "kinds": self._kinds,
                "ids": self._ids,
                "vectors": self._vectors,
                "positions": self._positions,
                "table_of": self._table_of,
                "adapter_of": self._adapter_of,
                "active": self._active,
            }
            | {each.name: getattr(self._state, each.name) for each in fields(DrawState)}
        )
        self._table_rows = SlotRows({"tables": self._tables})
        # For each slot, the block table that the device has.
        self._known: list[tuple[int, ...]] = [()] * max_rows
        # By the number of rows, and by whether any row has an adapter.
        self._recordings: dict[tuple[int, bool], Recording[None]] = {}
        self._records_writes = True
        self._patience = patience()
        self.buckets = buckets(max_rows)
        self._slots = SlotMap(self.buckets)
        self._has_failed = False

    def record(self, rows: int, *, adapted: bool = False) -> None:
        """Record the step of a bucket; with the first one, the writes of joins and leaves too.

        Args:
            adapted: the step of rows with adapters.

        Raises:
            ConfigError: the device has not enough memory.
        """
        if self._records_writes:
            self._records_writes = False
            self._rows.record(self._recorder)
            self._table_rows.record(self._recorder)
        step = partial(self._step, rows, adapted)
        self._recordings[rows, adapted] = self._recorder.record(step)
        # The recorder has run some steps.
        self._turn.fill_(self._turns % _KEPT_STEPS)
        if self._attention is not None:
            self._attention.prepare(self._places(rows))

    def lay_out(self, rows: Sequence[DecodeInput]) -> None:
        """Replace all sequences on the device, after the steps that were submitted before."""
        self._slots.position_of = dict.fromkeys(self._slots.slot_of, -1)
        inputs = {row.seq_id: row for row in rows}
        self.place({row.seq_id: row.position for row in rows}, inputs.__getitem__)

    @torch.inference_mode()
    def place(self, batch: Mapping[int, int], enter: Callable[[int], DecodeInput]) -> None:
        """Let sequences join and leave, after the steps that were submitted before.

        Args:
            batch: the position of the next input of each sequence, by its id. All other sequences
                leave.
            enter: returns the input of a sequence that joins.
        """
        with self._noting_failures():
            self._place(batch, enter)

    def _place(self, batch: Mapping[int, int], enter: Callable[[int], DecodeInput]) -> None:
        change = self._slots.assign(batch)
        if change.moved:
            slots_now = self._rows.move(change.moved)
            self._table_of.index_copy_(0, slots_now, slots_now.int())
        for _, slot in change.moved:
            self._known[slot] = ()
        slots = [slot for _, slot in change.entered]
        for slot in slots:
            self._known[slot] = ()
        if slots:
            inputs = [enter(seq_id) for seq_id, _ in change.entered]
            assert [each.position for each in inputs] == [batch[each.seq_id] for each in inputs]
            self._rows.write(slots, self._packed(inputs, slots))
        if change.left:
            self._rows.write(change.left, self._nothing(len(change.left)))

    @torch.inference_mode()
    def run(
        self,
        tables: Sequence[tuple[int, ...]],
        steps: int,
        heads: Sequence[HeadSet | None] = (),
        *,
        adapted: bool = False,
    ) -> Pending:
        """Submit steps of the batch; the device carries them out after the earlier ones.

        The returned function gives a row for each sequence in the order of :meth:`place`, step
        after step. It must be called before ``DEPTH`` later plans are submitted.

        Args:
            tables: the block table of each sequence, for all of these steps.
            steps: how many, ``MAX_STEPS`` at most.
            heads: those whose attention each sequence gives; ``None`` for a sequence without.
            adapted: whether any sequence has an adapter.
        """
        assert steps <= MAX_STEPS, f"the results of {steps} steps may be lost"
        with self._noting_failures():
            return self._run(tables, steps, heads, adapted)

    def _run(
        self,
        tables: Sequence[tuple[int, ...]],
        steps: int,
        heads: Sequence[HeadSet | None],
        adapted: bool,
    ) -> Pending:
        slots = [self._slots.slot_of[seq_id] for seq_id in self._slots.position_of]
        self._update(dict(zip(slots, tables, strict=True)))
        recording = self._recordings[self._slots.bucket(self._slots.rows), adapted]
        wanted = sorted(
            ((slot, each) for slot, each in zip(slots, heads, strict=False) if each is not None),
            key=itemgetter(0),
        )
        attention = None
        if wanted:
            assert self._attention is not None, "these steps give no attention"
            attention = self._attention.begin(wanted, steps)
        turns = (self._turns + np.arange(steps)) % _KEPT_STEPS
        for step in range(steps):
            recording.replay()
            self._turns += 1
            if attention is not None:
                attention.add(step, self._places(self._slots.rows))
        if attention is not None:
            attention.fetch()
        self._slots.advance(steps)
        done = None
        if self._pool.is_cuda:
            done = torch.cuda.Event()
            done.record()
        return partial(
            _wait, self._results, turns, slots, done, self._drawn_width, attention, self._patience
        )

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        """Begin with empty rows after a call that failed, and note it if this one fails.

        Such a call may have left sequences in their rows, which would go on writing into blocks
        that other sequences have by now.
        """
        if self._has_failed:
            rows = list(range(len(self._known)))
            self._rows.write(rows, self._nothing(len(rows)))
            self._slots = SlotMap(self.buckets)
            self._has_failed = False
        try:
            yield
        except BaseException:
            self._has_failed = True
            raise

    def _places(self, rows: int) -> AttentionMetadata:
        return AttentionMetadata(
            self._positions[:rows],
            self._tables[:rows],
            self._table_of[:rows],
            self._max_positions,
            is_decode=True,
        )

    def _packed(
        self, inputs: Sequence[DecodeInput], slots: Sequence[int]
    ) -> dict[str, NDArray[Any]]:
        """Return the rows of sequences that join, by the names of the tensors."""
        count = len(inputs)
        ids = np.stack([each.ids for each in inputs])
        vectors = np.zeros((count, self._vectors.shape[1]), dtype=np.float32)
        for row, (each, slot) in enumerate(zip(inputs, slots, strict=True)):
            if each.kind is RowKind.VECTOR:
                assert each.vector is not None
                vectors[row] = each.vector
                ids[row, 0] = slot  # the index of the vector
        return {
            "kinds": np.array([each.kind for each in inputs]),
            "ids": ids,
            "vectors": vectors,
            "positions": np.array([each.position for each in inputs]),
            "table_of": np.array(slots),
            "adapter_of": np.array([each.adapter for each in inputs]),
            "active": np.ones(count),
            **pack_draws([each.draw for each in inputs], self._drawn_width),
        }

    def _nothing(self, count: int) -> dict[str, NDArray[Any]]:
        """Return the rows of no sequence, by the names of the tensors."""
        empty = DrawState.zeros(count, self._drawn_width, torch.device("cpu"))
        state = {each.name: getattr(empty, each.name).numpy() for each in fields(DrawState)}
        return {
            "kinds": np.zeros(count),
            "ids": np.zeros((count, self._ids.shape[1])),
            "vectors": np.zeros((count, self._vectors.shape[1])),
            "positions": np.zeros(count),
            "table_of": np.full(count, -1),
            "adapter_of": np.full(count, -1),
            "active": np.zeros(count),
            **state,
        }

    def _update(self, tables: Mapping[int, tuple[int, ...]]) -> None:
        """Write the block tables that changed, by slot."""
        changed = [slot for slot, table in tables.items() if table != self._known[slot]]
        if changed:
            values = np.zeros((len(changed), self._tables.shape[1]), dtype=np.int32)
            for row, slot in zip(values, changed, strict=True):
                row[: len(tables[slot])] = tables[slot]
                self._known[slot] = tables[slot]
            self._table_rows.write(changed, {"tables": values})

    def _step(self, rows: int, adapted: bool = False) -> None:
        """Compute one step of the first ``rows`` rows, all on the device."""
        ids, logprobs, finite = self._drawn[:rows], self._logprobs[:rows], self._finite[:rows]
        llama, given = self._llama, (self._kinds[:rows], self._ids[:rows], self._vectors)
        kept = None if self._attention is None else self._attention.kept
        adapter_of = self._adapter_of[:rows] if adapted else None
        places, x = self._places(rows), llama.operations.embed(*given)
        hiddens = llama.normed(llama.apply_layers(x, places, self._pool, kept, adapter_of))
        heads = self._embed.code_logits if self._is_code else self._embed.text_logits
        logits = heads(hiddens).contiguous()
        draw_codes(logits, self._state, self._end, ids, logprobs, finite)
        store_results(
            hiddens,
            ids,
            logprobs,
            finite,
            self._active,
            self._kinds,
            self._ids,
            self._positions,
            self._state.generated,
            self._turn,
            self._results,
            kind=RowKind.CODE if self._is_code else RowKind.TEXT,
        )
        self._turn += 1


def _wait(
    results: Tensor,
    turns: NDArray[np.int64],
    slots: Sequence[int],
    done: torch.cuda.Event | None,
    drawn: int,
    attention: PlanAttention | None,
    patience: float,
) -> StepResult:
    """Wait until steps are done, and return a copy of their results.

    Args:
        results: int32 [turns, rows, width], see ``store_results``.
        turns: the steps' places in it.
        slots: the rows of the sequences, in their order.
        done: the event behind the steps; ``None`` where they are synchronous.
        drawn: ids of a row.
        attention: that of the steps, if any sequence gives it.
        patience: for how many seconds to wait.

    Raises:
        DeviceLostError: the GPU does not answer.
    """
    if done is not None:
        wait_for(done, patience)
    rows = results.numpy()[np.ix_(turns, np.array(slots, dtype=np.int64))].reshape(
        len(turns) * len(slots), -1
    )
    hidden = rows.shape[1] - result_width(0, drawn)
    hiddens, ids, logprobs, finite = np.split(rows, np.cumsum([hidden, drawn, drawn]), axis=1)
    return StepResult(
        ids=ids.astype(np.int64),
        hiddens=torch.from_numpy(hiddens.view(np.float32)),
        logprobs=logprobs.view(np.float32).mean(axis=1),
        finite=finite[:, 0] != 0,
        attention={} if attention is None else attention.by_draw(slots),
    )


def buckets(max_rows: int, min_rows: int = 1) -> tuple[int, ...]:
    """Return the numbers of rows for which steps are recorded, from ``min_rows`` on.

    From 8 to 256, each is at most one and a half times the one before it, then at most 1.25 times.
    The last is ``max_rows``.
    """
    sizes = [1, 2, 4]
    while sizes[-1] < max_rows:
        parts = 2 if sizes[-1] < 256 else 4
        step = max(4, 2 ** (sizes[-1].bit_length() - 1) // parts)
        sizes.append(sizes[-1] + step)
    return (*(size for size in sizes if min_rows <= size < max_rows), max_rows)
