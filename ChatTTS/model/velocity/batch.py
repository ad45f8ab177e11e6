"""What a model computes in one step: rows of any sequences, each with its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class RowKind(IntEnum):
    """What a row is embedded from."""

    TEXT = 0
    CODE = 1
    VECTOR = 2


@dataclass(frozen=True)
class Batch:
    """The inputs of a step. A row is one position of one sequence.

    Attributes:
        kinds: uint8 [rows], see :class:`RowKind`.
        ids: int32 [rows, num_codebooks]: a text id or the index of a vector in the first column, or
            the codes of a frame.
        vectors: float32 [n, hidden], speaker vectors.
        positions: int32 [rows], in the sequence. All rows of a sequence follow one another, in the
            order of positions.
        tables: int32 [sequences, blocks], physical blocks; the rest of a row means nothing.
        table_of: int32 [rows], the row of ``tables``.
        draws: int32 [n], rows whose hidden states are wanted.
    """

    kinds: NDArray[np.uint8]
    ids: NDArray[np.int32]
    vectors: NDArray[np.float32]
    positions: NDArray[np.int32]
    tables: NDArray[np.int32]
    table_of: NDArray[np.int32]
    draws: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kinds)
