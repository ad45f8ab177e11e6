"""Slots: each sequence that decodes owns a place on the device, also while it misses steps.

Steps advance what is there. The host writes only the slots of sequences that join, so a change of
the batch does not wait for the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....cuda.graphs import CapturedGraph, GraphCapturer

# How many rows one captured write changes.
_WRITES = (4, 16, 64)


@dataclass
class SlotMap:
    """The slots of sequences, on the host.

    A sequence that misses steps keeps its slot as long as no other one needs it. What the device
    has there is good when it goes on.

    Args:
        size: the number of slots.

    Attributes:
        slot_of: the slot of each sequence that has one, by its id; the last batch comes last.
        position_of: the position that the device would compute next, by the sequence's id.
        batch: the ids of the last batch, in its order.
    """

    size: int
    slot_of: dict[int, int] = field(default_factory=dict)
    position_of: dict[int, int] = field(default_factory=dict)
    batch: tuple[int, ...] = ()

    def assign(self, batch: Mapping[int, int]) -> dict[int, int]:
        """Give a slot to each sequence of ``batch``, that of the one that rests longest if need be.

        Args:
            batch: the next position of each sequence, by its id; ``size`` at most. A sequence whose
                position is not the one that the device would compute next enters again.

        Returns:
            The slots of sequences that enter.
        """
        entered = [seq for seq, position in batch.items() if self.position_of.get(seq) != position]
        if new := [seq for seq in entered if seq not in self.slot_of]:
            used = set(self.slot_of.values())
            free = [slot for slot in range(self.size) if slot not in used]
            resting = (seq for seq in list(self.slot_of) if seq not in batch)
            for seq in new:
                self.slot_of[seq] = free.pop(0) if free else self._taken_from(next(resting))
        for seq in batch:
            self.slot_of[seq] = self.slot_of.pop(seq)
        self.position_of.update(batch)
        self.batch = tuple(batch)
        return {seq: self.slot_of[seq] for seq in entered}

    def _taken_from(self, seq_id: int) -> int:
        del self.position_of[seq_id]
        return self.slot_of.pop(seq_id)

    def advance(self, steps: int) -> None:
        """Note that the device moves the sequences of the last batch by ``steps`` positions."""
        for seq_id in self.batch:
            self.position_of[seq_id] += steps


class SlotRows:
    """Rows of several tensors on the device, which are written together.

    Args:
        tensors: each [rows + 1, ...], of int32, float32 or uint8, by name. The last row of each is
            for padding, and no step reads it.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)
        any_tensor = next(iter(self._tensors.values()))
        self._spare = len(any_tensor) - 1
        self._widths = {name: each[0].numel() for name, each in self._tensors.items()}
        width = 1 + sum(self._widths.values())
        # The slot of each row that is written, then its values.
        self._staged = torch.full(
            (_WRITES[-1], width), self._spare, dtype=torch.int32, device=any_tensor.device
        )
        self._graphs: dict[int, CapturedGraph[None]] = {}

    def capture(self, capturer: GraphCapturer) -> None:
        """Capture the writes; until then they are done one by one.

        Raises:
            ConfigError: the device has not enough memory.
        """
        self._staged[:, 0] = self._spare
        for count in _WRITES:
            self._graphs[count] = capturer.capture(partial(self._write, count))

    def write(self, slots: Sequence[int], values: Mapping[str, NDArray[Any]]) -> None:
        """Replace the rows ``slots``, after the work that was submitted before.

        Args:
            slots: of n sequences.
            values: [n, ...] for each tensor, by its name.
        """
        count = len(slots)
        packed = np.empty((count, self._staged.shape[1]), dtype=np.int32)
        packed[:, 0] = slots
        at = 1
        for name, width in self._widths.items():
            is_real = self._tensors[name].is_floating_point()
            columns = np.ascontiguousarray(
                values[name].reshape(count, width), dtype=np.float32 if is_real else np.int32
            )
            packed[:, at : at + width] = columns.view(np.int32)
            at += width
        for start in range(0, count, _WRITES[-1]):
            self._submit(packed[start : start + _WRITES[-1]])

    def _submit(self, packed: NDArray[np.int32]) -> None:
        size = next(size for size in _WRITES if size >= len(packed))
        padded = np.full((size, packed.shape[1]), self._spare, dtype=np.int32)
        padded[: len(packed)] = packed
        self._staged[:size].copy_(_pinned(padded, self._staged.device), non_blocking=True)
        graph = self._graphs.get(size)
        if graph is None:
            self._write(size)
        else:
            graph.replay()

    def _write(self, count: int) -> None:
        """Write the first staged rows into the tensors."""
        slots = self._staged[:count, 0].long()
        at = 1
        for name, width in self._widths.items():
            tensor, columns = self._tensors[name], self._staged[:count, at : at + width]
            is_real = tensor.is_floating_point()
            columns = columns.view(torch.float32) if is_real else columns.to(tensor.dtype)
            tensor.view(len(tensor), width).index_copy_(0, slots, columns)
            at += width


def _pinned(values: NDArray[Any], device: torch.device) -> Tensor:
    """Return ``values`` in memory from which a CUDA device copies while the host goes on."""
    given = torch.from_numpy(values)
    return given.pin_memory() if device.type == "cuda" else given
