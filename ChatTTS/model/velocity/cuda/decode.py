"""Decode steps that are recorded as one graph: last codes in, hidden states and next codes out.

The inputs of a step are on the device at fixed addresses, and a step writes the inputs of the next
one there. So steps follow one another without the host, which reads their results later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...cuda.graphs import Recorder, Recording
from ...cuda.kernels.sampling import DrawState, draw_codes, pack_draws
from ...cuda.layers import AttentionMetadata
from ...embed import Embed, RowKind
from ...sampling import Draw
from ..plan import Pending, StepResult
from .llama import TritonLlama


@dataclass(frozen=True)
class DecodeInput:
    """The input of one sequence in a decode step.

    Attributes:
        seq_id: the sequence's id.
        position: the position of its last ids, which are the input.
        ids: the last ids, int32 [num_codebooks].
        draw: how to draw the next ids.
    """

    seq_id: int
    position: int
    ids: NDArray[np.int32]
    draw: Draw


class DecodeSteps:
    """A batch on the device, and its recorded decode steps.

    Args:
        llama: the layers.
        embed: embedding tables, and the heads of the codes.
        pool: the KV cache's blocks.
        recorder: records a step for each bucket.
        max_rows: how many sequences may decode together.
        max_positions: how many positions a sequence may have.
    """

    def __init__(
        self,
        llama: TritonLlama,
        embed: Embed,
        pool: Tensor,
        recorder: Recorder,
        *,
        max_rows: int,
        max_positions: int,
    ) -> None:
        device, num_codebooks = pool.device, embed.num_codebooks
        self._llama, self._embed, self._pool, self._recorder = llama, embed, pool, recorder
        self._most = max_positions
        self._end = embed.num_audio_tokens - 1
        block_size = pool.shape[4]
        width = -(-max_positions // block_size)
        whole: dict[str, Any] = {"dtype": torch.int32, "device": device}
        self._kinds = torch.full((max_rows,), RowKind.CODE, dtype=torch.uint8, device=device)
        self._no_vectors = torch.empty(
            0, embed.code.weight.shape[1], dtype=torch.float32, device=device
        )
        self._ids = torch.zeros(max_rows, num_codebooks, **whole)
        self._positions = torch.zeros(max_rows, **whole)
        self._tables = torch.zeros(max_rows, width, **whole)
        self._table_of = torch.full((max_rows,), -1, **whole)
        self._state = DrawState.zeros(max_rows, num_codebooks, device)
        self._logprobs = torch.zeros(max_rows, num_codebooks, dtype=torch.float32, device=device)
        self._finite = torch.zeros(max_rows, dtype=torch.uint8, device=device)
        self._host_tables = np.zeros((max_rows, width), dtype=np.int32)
        # For each row, the block table that the device has.
        self._known: list[tuple[int, ...]] = [()] * max_rows
        self._batch: list[int] = []
        self._recordings: dict[int, Recording[Tensor]] = {}
        self.buckets = buckets(max_rows)

    def record(self, rows: int) -> None:
        """Record the step of a bucket.

        Raises:
            ConfigError: the device has not enough memory.
        """
        self._recordings[rows] = self._recorder.record(partial(self._step, rows))

    def forget(self) -> None:
        """Invalidate the batch on the device: its sequences moved forward in another way."""
        self._batch = []

    def is_laid_out(self, seq_ids: Sequence[int]) -> bool:
        """Return whether the batch on the device consists of exactly these sequences."""
        return self._batch == list(seq_ids)

    def lay_out(self, rows: Sequence[DecodeInput]) -> None:
        """Replace the batch on the device; no step may be in flight."""
        count = len(rows)
        self._put(self._ids, np.stack([row.ids for row in rows]))
        self._put(self._positions, np.array([row.position for row in rows], dtype=np.int32))
        table_of = np.full(len(self._table_of), -1, dtype=np.int32)
        table_of[:count] = np.arange(count)
        self._put(self._table_of, table_of)
        for name, values in pack_draws([row.draw for row in rows], self._ids.shape[1]).items():
            self._put(getattr(self._state, name), values)
        # Steps advance padding rows as well; without this their counters would overflow in a server
        # that never fills a bucket.
        self._positions[count:].zero_()
        self._state.generated[count:].zero_()
        self._known[:count] = [()] * count
        self._batch = [row.seq_id for row in rows]

    def run(self, tables: Sequence[tuple[int, ...]], steps: int) -> Pending:
        """Submit steps of the batch; the device carries them out after the earlier ones.

        The returned function gives a row for each of the batch, step after step.

        Args:
            tables: the block table of each row, for all of these steps.
            steps: how many.
        """
        count = len(self._batch)
        self._update(tables)
        bucket = next(rows for rows in self.buckets if rows >= count)
        recording = self._recordings[bucket]
        on_cuda = self._pool.is_cuda
        width = recording.result.shape[1]
        packed = torch.empty(
            steps, count, width, dtype=torch.int32, device="cpu", pin_memory=on_cuda
        )
        for step in range(steps):
            recording.replay()
            packed[step].copy_(recording.result[:count], non_blocking=True)
        done = None
        if on_cuda:
            done = torch.cuda.Event()
            done.record()
        return partial(_wait, packed.flatten(0, 1), done, self._ids.shape[1])

    def _update(self, tables: Sequence[tuple[int, ...]]) -> None:
        """Copy block tables that changed to the device."""
        count = len(tables)
        changed = [row for row in range(count) if tables[row] != self._known[row]]
        for row in changed:
            self._known[row] = tables[row]
            self._host_tables[row, : len(tables[row])] = tables[row]
        if changed:
            # A copy: the next update must not change memory that is still being transferred.
            self._put(self._tables, self._host_tables[:count].copy())

    def _put(self, target: Tensor, values: NDArray[Any]) -> None:
        """Fill the first rows of a tensor after the work that was submitted before."""
        given = torch.from_numpy(values)
        if target.is_cuda:
            given = given.pin_memory()
        target[: len(values)].copy_(given, non_blocking=True)

    def _step(self, rows: int) -> Tensor:
        """Compute one step of the first ``rows`` rows, all on the device.

        Returns:
            int32 [rows, hidden + 2 * num_codebooks + 1], the results for the host: the bits of the
            hidden states, the ids, the bits of their log-probabilities, and whether the logits were
            finite.
        """
        ids, logprobs, finite = self._ids[:rows], self._logprobs[:rows], self._finite[:rows]
        places = AttentionMetadata(
            self._positions[:rows], self._tables[:rows], self._table_of[:rows], self._most
        )
        inputs = self._kinds[:rows], ids, self._no_vectors
        hiddens = self._llama.hiddens(*inputs, places, self._pool)
        logits = self._embed.code_logits(hiddens).contiguous()
        draw_codes(logits, self._state, self._end, ids, logprobs, finite)
        self._positions[:rows] += 1
        self._state.generated[:rows] += 1
        bits = hiddens.float().view(torch.int32), logprobs.view(torch.int32)
        return torch.cat([bits[0], ids, bits[1], finite.int().unsqueeze(1)], dim=1)


def _wait(packed: Tensor, done: torch.cuda.Event | None, num_codebooks: int) -> StepResult:
    """Wait until steps are done, and return their results.

    Args:
        packed: int32 [rows, width], host memory to which the device copies the results; see
            ``DecodeSteps._step``.
        done: the event behind the copies; ``None`` where the copies are synchronous.
        num_codebooks: number of codebooks.
    """
    if done is not None:
        done.synchronize()
    hidden = packed.shape[1] - 2 * num_codebooks - 1
    hiddens, ids, logprobs, finite = packed.split([hidden, num_codebooks, num_codebooks, 1], dim=1)
    return StepResult(
        ids=ids.numpy().astype(np.int64),
        hiddens=hiddens.view(torch.float32),
        logprobs=logprobs.view(torch.float32).mean(dim=1).numpy(),
        finite=finite[:, 0].numpy() != 0,
    )


def buckets(most: int) -> tuple[int, ...]:
    """Return the numbers of rows for which steps are recorded.

    From 8 on, each is at most one and a half times the one before it. The last is ``most``.
    """
    sizes = [1, 2, 4]
    while sizes[-1] < most:
        step = max(4, 2 ** (sizes[-1].bit_length() - 2))
        sizes.append(sizes[-1] + step)
    return (*(size for size in sizes if size < most), most)
