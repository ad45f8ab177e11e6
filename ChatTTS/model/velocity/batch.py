"""The inputs of one step of the model: positions of any sequences, side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
