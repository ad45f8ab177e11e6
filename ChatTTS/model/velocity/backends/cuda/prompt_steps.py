"""Captured steps that read prompts and chunks of them, without the positions that draw.

Kernels that are launched one by one keep the host busy for longer than the device. So steps are
captured for some numbers of rows, the buckets. A step takes the smallest bucket that holds its
rows, and fills it up with padding.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....cuda.graphs import GraphCapturer
from ....kernels.cuda.prefill import tiles_of
from ...input_batch import InputBatch
from ...layers import Llama
from .captured_steps import CapturedSteps
from .decode_steps import buckets
from .operations import AttentionMetadata, TritonOperations

_MIN_ROWS = 16


class PromptSteps:
    """Captured steps that only write keys and values.

    Args:
        llama: computes the steps.
        pool: the KV cache's blocks.
        capturer: captures a step for each bucket.
        num_codebooks: number of codebooks.
        hidden: size of a vector.
        max_rows: how many rows a step may have.
        max_sequences: how many sequences a step may have.
        max_positions: how many positions a sequence may have.
    """

    def __init__(
        self,
        llama: Llama[TritonOperations],
        pool: Tensor,
        capturer: GraphCapturer,
        *,
        num_codebooks: int,
        hidden: int,
        max_rows: int,
        max_sequences: int,
        max_positions: int,
    ) -> None:
        self._llama, self._pool, self._max_positions = llama, pool, max_positions
        device = pool.device

        def whole(*sizes: int, dtype: torch.dtype = torch.int32) -> Tensor:
            return torch.zeros(*sizes, dtype=dtype, device=device)

        self._kinds = whole(max_rows, dtype=torch.uint8)
        self._ids = whole(max_rows, num_codebooks)
        self._vectors = whole(max_sequences, hidden, dtype=torch.float32)
        self._positions = whole(max_rows)
        self._table_of = whole(max_rows) - 1
        self._adapter_of = whole(max_rows) - 1
        self._tiles = whole(max_rows, 3) if llama.operations.takes_tiles else None
        self._tables = whole(max_sequences, -(-max_positions // pool.shape[4]))
        self._capturer = capturer
        self.buckets = buckets(max_rows, _MIN_ROWS)
        self._captured = CapturedSteps(self.buckets)

    def capture(
        self, rows: int, *, adapted: bool = False, warm_up: Callable[[], object] | None = None
    ) -> None:
        """Capture the step of a bucket.

        Args:
            adapted: the step of rows with adapters.
            warm_up: this step of other ``PromptSteps``, without rows; see ``GraphCapturer``. With
                it, another thread may launch steps meanwhile.

        Raises:
            ConfigError: the device has not enough memory.
        """
        step = partial(self.compute, rows, adapted=adapted)
        self._captured.add(rows, adapted, self._capturer.capture(step, warm_up))

    def launch(self, batch: InputBatch) -> None:
        """Submit a step: the device carries it out after the work that was submitted before."""
        bucket = next(rows for rows in self.buckets if rows >= len(batch))
        step = self._captured.taken[bucket, batch.adapter_of is not None]
        rest = step.rows - len(batch)
        self._fill(self._kinds, batch.kinds)
        self._fill(self._ids, batch.ids)
        self._fill(self._vectors, batch.vectors)
        self._fill(self._positions, batch.positions)
        self._fill(self._table_of, np.pad(batch.table_of, (0, rest), constant_values=-1))
        if self._tiles is not None:
            # Padding rows are in no tile; their results are never read.
            tiles = tiles_of(batch.table_of)
            self._fill(self._tiles, np.pad(tiles, ((0, step.rows - len(tiles)), (0, 0))))
        self._fill(self._tables, batch.tables)
        if batch.adapter_of is not None:
            self._fill(self._adapter_of, np.pad(batch.adapter_of, (0, rest), constant_values=-1))
        step.graph.replay()

    def _fill(self, target: Tensor, values: NDArray[Any]) -> None:
        given = torch.from_numpy(values)
        if target.is_cuda:
            given = given.pin_memory()
        first = tuple(slice(size) for size in values.shape)
        target[first].copy_(given, non_blocking=True)

    def compute(self, rows: int, *, adapted: bool = False) -> None:
        """Compute a step of ``rows`` rows, all on the device; this is captured."""
        places = AttentionMetadata(
            self._positions[:rows],
            self._tables,
            self._table_of[:rows],
            self._max_positions,
            is_decode=False,
            tiles=None if self._tiles is None else self._tiles[:rows],
        )
        given = self._kinds[:rows], self._ids[:rows], self._vectors
        x = self._llama.operations.embed(*given)
        adapter_of = self._adapter_of[:rows] if adapted else None
        self._llama.apply_layers(x, places, self._pool, adapter_of=adapter_of)
