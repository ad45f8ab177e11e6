"""Decode steps that are captured as one graph: last ids in, hidden states and next ids out.

The inputs of a step are on the device at fixed addresses, and a step writes the inputs of the next
one there. So steps follow one another without the host, which reads their results later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....cuda.failures import patience, wait_for
from ....cuda.graphs import GraphCapturer
from ....embed import Embed, RowKind
from ....kernels.cuda.sampling import SamplingState, pack_sampling, sample_codes
from ....kernels.cuda.step_results import result_width, store_results
from ....random_numbers import Pass
from ...input_batch import SequenceState
from ...layers import Llama
from ...plan import Pending, StepResult, Work
from .captured_steps import CapturedSteps
from .operations import AttentionMetadata, TritonOperations
from .slots import SlotMap, SlotRows
from .text_attention import PlanAttention, TextAttention

# Plans in flight: the host makes the next one while the device carries out the last one.
DEPTH = 2
# The most steps of a plan. With more of them the host has less to do, and new requests wait longer.
MAX_STEPS = 8
# Steps whose results are kept for the host: more than can be in flight, and a power of two.
_KEPT_STEPS = 1 << (DEPTH * MAX_STEPS).bit_length()


class DecodeSteps:
    """The sequences of one pass on the device, and their captured decode steps.

    Args:
        llama: the layers.
        embed: embedding tables and heads.
        pool: the KV cache's blocks.
        capturer: captures a step for each bucket.
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
        capturer: GraphCapturer,
        *,
        max_rows: int,
        max_positions: int,
        kind: Pass = Pass.CODE,
        end: int | None = None,
        attention: TextAttention | None = None,
    ) -> None:
        device, num_codebooks = pool.device, embed.num_codebooks
        self._llama, self._embed, self._pool, self._capturer = llama, embed, pool, capturer
        self._max_positions, self._attention = max_positions, attention
        self._is_code = kind is Pass.CODE
        self._end = embed.end_of_speech if end is None else end
        self._drawn_width = num_codebooks if self._is_code else 1
        width = -(-max_positions // pool.shape[4])
        # Slots of sequences, of rows without one (their draws are stored, too), and one for padded
        # writes.
        slots, rows = 2 * max_rows + 1, max_rows + 1
        whole: dict[str, Any] = {"dtype": torch.int32, "device": device}
        real: dict[str, Any] = {"dtype": torch.float32, "device": device}
        self._kinds = torch.zeros(slots, dtype=torch.uint8, device=device)
        self._vectors = torch.zeros(slots, embed.code.weight.shape[1], **real)
        self._ids = torch.zeros(slots, num_codebooks, **whole)
        self._state = SamplingState.zeros(slots, self._drawn_width, device)
        self._drawn = self._ids if self._is_code else torch.zeros(slots, 1, **whole)
        self._logprobs = torch.zeros(slots, self._drawn_width, **real)
        self._finite = torch.zeros(slots, dtype=torch.uint8, device=device)
        self._tables = torch.zeros(rows, width, **whole)
        # The slot of each row, and what the host knows as well as the device.
        self._slot_of = torch.arange(max_rows, slots, **whole)
        self._positions = torch.zeros(rows, **whole)
        self._table_of = torch.full((rows,), -1, **whole)
        self._adapter_of = torch.full((rows,), -1, **whole)
        # 1 for a row with a sequence. Steps would advance the counters of all other rows until they
        # overflow, in a server that never fills a bucket.
        self._active = torch.zeros(rows, **whole)
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
        # Where ids, their log-probabilities and ``finite`` begin in a result.
        self._columns = np.cumsum([self._vectors.shape[1], self._drawn_width, self._drawn_width])
        self._rows = SlotRows(
            {
                "slots": self._slot_of,
                "positions": self._positions,
                "table_of": self._table_of,
                "adapter_of": self._adapter_of,
                "active": self._active,
            }
        )
        self._inputs = SlotRows(
            {"kinds": self._kinds, "ids": self._ids, "vectors": self._vectors}
            | {each.name: getattr(self._state, each.name) for each in fields(SamplingState)}
        )
        self._table_rows = SlotRows({"tables": self._tables})
        # For each slot, the block table that the device has.
        self._known: list[tuple[int, ...]] = [()] * max_rows
        self._captures_writes = True
        self._patience = patience()
        self.buckets = buckets(max_rows)
        self._captured = CapturedSteps(self.buckets)
        self._slots = SlotMap(max_rows)
        self._has_failed = False

    def capture(
        self, rows: int, *, adapted: bool = False, warm_up: Callable[[], object] | None = None
    ) -> None:
        """Capture the step of a bucket; with the first one, the writes of joins and leaves too.

        Args:
            adapted: the step of rows with adapters.
            warm_up: this step of other ``DecodeSteps``, without sequences; see ``GraphCapturer``.
                With it, another thread may draw meanwhile. The first capture has none.

        Raises:
            ConfigError: the device has not enough memory.
        """
        if self._captures_writes:
            self._captures_writes = False
            self._rows.capture(self._capturer)
            self._inputs.capture(self._capturer)
            self._table_rows.capture(self._capturer)
        graph = self._capturer.capture(partial(self.compute, rows, adapted=adapted), warm_up)
        if warm_up is None:
            # The capturer has run some steps.
            self._turn.fill_(self._turns % _KEPT_STEPS)
            self.prepare_attention()
        self._captured.add(rows, adapted, graph)

    def prepare_attention(self) -> None:
        """Launch the attention to the text once, so that no request waits for its compilation."""
        if self._attention is not None:
            self._attention.prepare(self._attention_metadata(1))

    def sample(self, works: Sequence[Work], states: Sequence[SequenceState], steps: int) -> Pending:
        """Submit steps; the device carries them out after the earlier ones.

        Sequences join and leave first: those without work leave.

        The returned function gives a row for each sequence in the order of the works, step after
        step. It must be called before ``DEPTH`` later plans are submitted.

        Args:
            works: of which each ends with the position that draws, with a block table for all of
                these steps. Those that join have no step in flight.
            states: of their sequences.
            steps: how many, ``MAX_STEPS`` at most.
        """
        assert steps <= MAX_STEPS, f"the results of {steps} steps may be lost"
        if self._has_failed:
            self._empty_rows()
        # A call that fails may leave sequences in their rows, which would go on writing into blocks
        # that other sequences have by then.
        self._has_failed = True
        self._assign_slots(works, states)
        pending = self._launch(states, steps)
        self._has_failed = False
        return pending

    def _empty_rows(self) -> None:
        self._write_rows(list(range(len(self._known))), {})
        self._slots = SlotMap(len(self._known))

    def _assign_slots(self, works: Sequence[Work], states: Sequence[SequenceState]) -> None:
        """Give each sequence a row, in this order, and a slot with its block table."""
        batch = {work.seq_id: work.start + work.count - 1 for work in works}
        before = self._slots.batch  # the sequences in the rows
        entered = self._slots.assign(batch)
        slots = [self._slots.slot_of[seq_id] for seq_id in batch]
        if entered:
            given = dict(zip(batch, states, strict=True))
            joining = {slot: given[seq_id] for seq_id, slot in entered.items()}
            assert all(given[seq_id].length == batch[seq_id] + 1 for seq_id in entered)
            self._inputs.write(list(joining), self._packed(joining))
            for slot in joining:
                self._known[slot] = ()
        rows = {
            row: (slots[row], batch[seq_id], states[row].adapter)
            for row, seq_id in enumerate(batch)
            if seq_id in entered or before[row : row + 1] != (seq_id,)
        }
        changed = [*rows, *range(len(batch), len(before))]
        if changed:
            self._write_rows(changed, rows)
        self._update({slot: work.block_table for slot, work in zip(slots, works, strict=True)})

    def _write_rows(self, changed: Sequence[int], rows: Mapping[int, tuple[int, int, int]]) -> None:
        """Write rows: slot, position and adapter of those in ``rows``; the others have nothing."""
        nothing = (-1, 0, -1)
        slots, positions, adapters = np.array([rows.get(row, nothing) for row in changed]).T
        is_active = slots >= 0
        values = {
            "slots": np.where(is_active, slots, len(self._known) + np.array(changed)),
            "positions": positions,
            "table_of": slots,
            "adapter_of": adapters,
            "active": is_active,
        }
        self._rows.write(changed, values)

    def _launch(self, states: Sequence[SequenceState], steps: int) -> Pending:
        """Submit steps of the rows, which ``states`` have."""
        rows = len(states)
        adapted = any(state.adapter >= 0 for state in states)
        bucket = self.buckets[bisect_left(self.buckets, rows)]
        graph = self._captured.taken[bucket, adapted].graph
        wanted = [(row, each.heads) for row, each in enumerate(states) if each.heads is not None]
        attention = None
        if wanted:
            assert self._attention is not None, "these steps give no attention"
            attention = self._attention.begin(wanted, steps)
        turns = (self._turns + np.arange(steps)) % _KEPT_STEPS
        for step in range(steps):
            graph.replay()
            self._turns += 1
            if attention is not None:
                attention.add(step, self._attention_metadata(rows))
        if attention is not None:
            attention.fetch()
        self._slots.advance(steps)
        done = None
        if self._pool.is_cuda:
            done = torch.cuda.Event()
            done.record()
        return partial(
            _wait, self._results, turns, rows, done, self._columns, attention, self._patience
        )

    def _attention_metadata(self, rows: int) -> AttentionMetadata:
        return AttentionMetadata(
            self._positions[:rows],
            self._tables,
            self._table_of[:rows],
            self._max_positions,
            is_decode=True,
        )

    def _packed(self, joining: Mapping[int, SequenceState]) -> dict[str, NDArray[Any]]:
        """Return the inputs of sequences that join, by the names of the tensors.

        Args:
            joining: the sequences, by their slots.
        """
        count, states = len(joining), joining.values()
        kinds = [state.kinds[state.length - 1] for state in states]
        ids = np.stack([state.ids[state.length - 1] for state in states])
        vectors = np.zeros((count, self._vectors.shape[1]), dtype=np.float32)
        for row, (slot, state) in enumerate(joining.items()):
            if kinds[row] == RowKind.VECTOR:
                assert state.request.prompt.speaker is not None
                vectors[row] = state.request.prompt.speaker
                ids[row, 0] = slot  # the index of the vector
        return {
            "kinds": np.array(kinds),
            "ids": ids,
            "vectors": vectors,
            **pack_sampling([state.sampling_row(self._end) for state in states], self._drawn_width),
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

    def compute(self, rows: int, *, adapted: bool = False) -> None:
        """Compute one step of the first ``rows`` rows, all on the device; this is captured."""
        drawn, slots = (self._drawn, self._logprobs, self._finite), self._slot_of[:rows]
        llama, given = self._llama, (self._kinds, self._ids, self._vectors, slots)
        kept = None if self._attention is None else self._attention.kept
        adapter_of = self._adapter_of[:rows] if adapted else None
        places, x = self._attention_metadata(rows), llama.operations.embed(*given)
        hiddens = llama.normed(llama.apply_layers(x, places, self._pool, kept, adapter_of))
        heads = self._embed.code_logits if self._is_code else self._embed.text_logits
        logits = heads(hiddens).contiguous()
        sample_codes(logits, self._state, self._end, *drawn, slots)
        store_results(
            hiddens,
            *drawn,
            self._active,
            self._kinds,
            self._ids,
            self._positions,
            self._state.generated,
            self._turn,
            self._results,
            slots,
            kind=RowKind.CODE if self._is_code else RowKind.TEXT,
        )
        self._turn += 1


def _wait(
    results: Tensor,
    turns: NDArray[np.int64],
    rows: int,
    done: torch.cuda.Event | None,
    columns: NDArray[np.int64],
    attention: PlanAttention | None,
    patience: float,
) -> StepResult:
    """Wait until steps are done, and return a copy of their results.

    Args:
        results: int32 [turns, rows, width], see ``store_results``.
        turns: the steps' places in it.
        rows: how many of them have sequences.
        done: the event behind the steps; ``None`` where they are synchronous.
        columns: where ids, their log-probabilities and ``finite`` begin in a result.
        attention: that of the steps, if any sequence gives it.
        patience: for how many seconds to wait.

    Raises:
        DeviceLostError: the GPU does not answer.
    """
    if done is not None:
        wait_for(done, patience)
    found = results.numpy()[turns, :rows].reshape(len(turns) * rows, -1)
    hiddens, ids, logprobs, finite = np.split(found, columns, axis=1)
    return StepResult(
        ids=ids.astype(np.int64),
        hiddens=torch.from_numpy(hiddens.view(np.float32)),
        logprobs=logprobs.view(np.float32).mean(axis=1),
        finite=finite[:, 0] != 0,
        attention={} if attention is None else attention.by_draw(rows),
    )


def buckets(max_rows: int, min_rows: int = 1) -> tuple[int, ...]:
    """Return the numbers of rows for which steps are captured, from ``min_rows`` on.

    From 8 to 256, each is at most one and a half times the one before it, then at most 1.25 times.
    The last is ``max_rows``.
    """
    sizes = [1, 2, 4]
    while sizes[-1] < max_rows:
        parts = 2 if sizes[-1] < 256 else 4
        step = max(4, 2 ** (sizes[-1].bit_length() - 1) // parts)
        sizes.append(sizes[-1] + step)
    return (*(size for size in sizes if min_rows <= size < max_rows), max_rows)
