"""The attention of decode steps to the text, for the sequences that ask for it.

It is launched behind a captured step, so steps take no longer where it is not asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....kernels.int8 import head_sizes
from ...input_batch import AttentionProbe, HeadSet
from .operations import AttentionMetadata, TritonOperations

# Numbers of float32 in 16 bytes.
_ALIGNED = 4


class TextAttention:
    """Computes the attention of captured steps.

    Args:
        operations: those of the steps.
        pool: the KV cache's blocks.
        max_rows: how many rows a step may have.
        dtype: of queries, keys and values before they are stored.

    Attributes:
        kept: [layers, rows, (heads + 2 * kv heads) * head size], the queries, keys and values of
            the last step before the rotation; all graphs of one stream may share it.
    """

    def __init__(
        self, operations: TritonOperations, pool: Tensor, max_rows: int, dtype: torch.dtype
    ) -> None:
        self._operations, self._pool = operations, pool
        kv_heads, _, size = head_sizes(pool)
        width = (operations.shape.num_attention_heads + 2 * kv_heads) * size
        self.kept = pool.new_zeros(pool.shape[1], max_rows, width, dtype=dtype)
        self._laid_out: tuple[list[tuple[int, HeadSet]], AttentionProbe, Tensor] | None = None

    def begin(self, wanted: list[tuple[int, HeadSet]], steps: int) -> PlanAttention:
        """Return the attention of a plan, to be computed step by step.

        Args:
            wanted: rows that give attention, ascending, each with its heads.
            steps: of the plan.
        """
        if self._laid_out is None or self._laid_out[0] != wanted:
            rows = wanted[-1][0] + 1
            probe = AttentionProbe.of(rows, wanted)
            self._laid_out = wanted, probe, self._entries(probe)
        _, probe, entries = self._laid_out
        # Every step's part begins at a multiple of 16 bytes, for which the kernel was compiled.
        width = -(-len(probe.out) // _ALIGNED) * _ALIGNED
        found = torch.empty(steps, width, device=self._pool.device)
        return PlanAttention(self, probe, entries, found)

    def launch(self, entries: Tensor, rows: AttentionMetadata, found: Tensor) -> None:
        """Compute the attention of the last step; see :meth:`TritonOperations.attend_text`."""
        self._operations.attend_text(entries, self.kept, rows, self._pool, found)

    def prepare(self, rows: AttentionMetadata) -> None:
        """Compile the kernel, so that nothing is compiled while requests run."""
        entries = torch.zeros(1, 5, dtype=torch.int32, device=self._pool.device)
        self.launch(entries, rows, torch.empty(1, device=self._pool.device))

    def _entries(self, probe: AttentionProbe) -> Tensor:
        row_of = np.repeat(np.arange(len(probe.first) - 1), np.diff(probe.first))
        columns = (row_of, probe.layers, probe.heads, probe.columns, probe.starts)
        given = torch.from_numpy(np.stack(columns, axis=1).astype(np.int32))
        if self._pool.is_cuda:
            given = given.pin_memory()
        return given.to(self._pool.device, non_blocking=True)


@dataclass
class PlanAttention:
    """The attention of a plan's steps.

    Attributes:
        probe: the layout of a step's probabilities.
        entries: the layout on the device.
        found: float32 [steps, probabilities], on the device until :meth:`fetch`.
    """

    owner: TextAttention
    probe: AttentionProbe
    entries: Tensor
    found: Tensor

    def add(self, step: int, rows: AttentionMetadata) -> None:
        """Compute the attention of a step that was just submitted.

        Args:
            rows: of the step; their positions are now one further.
        """
        self.owner.launch(self.entries, rows, self.found[step])

    def fetch(self) -> None:
        """Start the copy to the host, behind all steps."""
        if self.found.is_cuda:
            host = torch.empty_like(self.found, device="cpu", pin_memory=True)
            self.found = host.copy_(self.found, non_blocking=True)

    def by_draw(self, draws: int) -> dict[int, NDArray[np.float32]]:
        """Return the attention [heads, text ids] of each draw, once the copy is done.

        Args:
            draws: how many rows draw in each step.
        """
        rows = np.flatnonzero(np.diff(self.probe.first)).tolist()
        return {
            step * draws + row: self.probe.row(row, out).copy()
            for step, out in enumerate(self.found.numpy())
            for row in rows
        }
