"""A loaded model: everything that a step computes with, and the interfaces of its two parts.

Each folder of ``backends/`` has a Llama and a sampler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...config import Config
from ..cuda import graphs
from ..devices.placement import Placement
from ..embed import Embed
from ..llama.config import LlamaShape
from ..llama.shard import Communicator, Shard
from ..lora.adapter import Adapter
from ..random_numbers import Pass
from ..sampling import SamplingRow
from ..tokenizer import Tokenizer
from .input_batch import InputBatch


@dataclass(frozen=True)
class SamplerOutput:
    """The draws of a step.

    Attributes:
        ids: int64 [rows, num_codebooks].
        logprobs: float32 [rows], under the plain logits, the mean over the codebooks.
        finite: bool [rows], whether all logits of the row were finite; without it the ids of the
            row mean nothing.
    """

    ids: NDArray[np.int64]
    logprobs: NDArray[np.float32]
    finite: NDArray[np.bool_]


class Sampler(Protocol):
    """Logits to ids."""

    def __call__(self, logits: Tensor, rows: Sequence[SamplingRow]) -> SamplerOutput:
        """Draw from float32 ``logits`` [rows, num_codebooks, vocabulary]."""
        ...


class LlamaModel(Protocol):
    """The interface of every Llama of the engine.

    Attributes:
        gives_attention: whether ``forward`` fills in ``batch.probe``.
    """

    gives_attention: bool

    def new_pool(self, num_blocks: int) -> Tensor:
        """Return memory for blocks; the first dimension counts them, and each is contiguous."""
        ...

    @property
    def block_bytes(self) -> int:
        """The size of a block in bytes: all layers, keys and values."""
        ...

    def new_rows(self, rows: int) -> Tensor:
        """Return memory for what a stage of a pipeline gives to the next, [rows, hidden]."""
        ...

    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        """Compute a step, and write the rows' keys and values into their blocks of ``pool``.

        The attention that ``batch.probe`` asks for is written into it.

        Returns:
            The hidden states of ``batch.draws`` after the final norm, [draws, hidden], on the CPU.
            Of a stage that is not the last one, what its layers computed, [rows, hidden].
        """
        ...


@dataclass(frozen=True)
class LoadedModel:
    """Everything that a step computes with.

    Attributes:
        how: a description of the kernels and the dtype, for logs and the system check.
        shard, communicator: the rank, and how it reaches the others, if it is not the only one.
        capturer: captures whole steps, if the model runs on Triton kernels.
        adapters: those that requests may name; batches number them in this order.
        compiles: whether the first launch of a kernel compiles it.
    """

    config: Config
    tokenizer: Tokenizer
    shape: LlamaShape
    embed: Embed
    llama: LlamaModel
    sampler: Sampler
    placement: Placement
    how: str
    shard: Shard
    communicator: Communicator | None = None
    capturer: graphs.GraphCapturer | None = None
    adapters: tuple[Adapter, ...] = ()
    compiles: bool = False

    @property
    def gives_attention(self) -> bool:
        """Return whether requests may have alignment heads; captured steps give their attention."""
        return self.llama.gives_attention or self.capturer is not None

    @property
    def ends(self) -> dict[Pass, int]:
        """The id that ends a sequence, by pass."""
        return {
            Pass.CODE: self.embed.end_of_speech,
            Pass.REFINE: self.tokenizer.end_of_refine,
        }
