"""The Llama (Touvron et al. 2023) of the engine, written once over a table of operations.

Torch has such a table (``backends/torch/operations.py``), and the Triton kernels have one
(``backends/cuda/operations.py``). The CPU kernels compute all layers in one call instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from ..cuda.failures import on_host
from ..kernels import int8
from ..llama.config import LlamaShape
from ..llama.shard import Communicator, Shard
from ..llama.weights import LayerWeights, LlamaFile
from .input_batch import InputBatch

# What a table makes for itself, and the layers only hand on: a matrix with what adapters add to it,
# where the rows of a step are, their adapters, and the output of attention.
Matrix = Any
Metadata = Any
Adapters = Any
Context = Any


@dataclass(frozen=True)
class LayerMatrices:
    """The matrices of one layer as a table packed them.

    ``qkv`` stacks queries, keys and values. ``gate_up`` is the gated half of the MLP: the product
    with it is silu(gate) * up.
    """

    qkv: Matrix
    out: Matrix
    gate_up: Matrix
    down: Matrix


class Operations(Protocol):
    """A table of operations, of which layers of a Llama consist; it says what its bits depend on.

    Attributes:
        shape: sizes and constants of the whole model.
        shard: the rank that is computed.
        device: of all tensors.
        gives_attention: whether :meth:`attend` fills in the probe of a batch.
        int8_cache: whether :meth:`attend` keeps keys and values in eight bits.
        int8_weights: whether :meth:`pack` quantises matrices to int8, and so wants float32.
    """

    shape: LlamaShape
    shard: Shard
    device: torch.device
    gives_attention: bool
    int8_cache: bool
    int8_weights: bool

    def pack(self, index: int, layer: LayerWeights) -> LayerMatrices:
        """Return the matrices of a layer as :meth:`product` reads them."""
        ...

    def metadata(self, batch: InputBatch, pool: Tensor) -> Metadata:
        """Return where the rows of a step are written and what they attend to, in every layer."""
        ...

    def adapters(self, batch: InputBatch) -> Adapters:
        """Return the adapters of the rows of a step, or ``None``."""
        ...

    def embed(self, kinds: Tensor, ids: Tensor, vectors: Tensor) -> Tensor:
        """Return embedded rows [rows, hidden]; see ``InputBatch`` for the arguments."""
        ...

    def norm(self, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        """Apply RMSNorm (Zhang and Sennrich 2019) to each row."""
        ...

    def product(
        self,
        x: Context,
        matrix: Matrix,
        adapters: Adapters,
        *,
        norm: tuple[Tensor, float] | None = None,
        residual: Tensor | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Multiply rows by a matrix, and add what their adapters add.

        Args:
            x: [rows, inputs], or what :meth:`attend` gave.
            norm: weight and eps of an RMSNorm that is applied to ``x`` first.
            residual: [rows, outputs]; the product is added to it in place, and it is returned.
            out: [rows, outputs]; receives a product without ``residual``, and is returned.
        """
        ...

    def attend(
        self, qkv: Tensor, rows: Metadata, pool: Tensor, layer: int, ahead: Sequence[Matrix]
    ) -> Context:
        """Rotate queries and keys, store keys and values, and attend up to each row.

        Args:
            qkv: [rows, (heads + 2 * kv heads) * head size].
            ahead: the matrices of the next products, of which the first multiplies the result.

        Returns:
            [rows, heads * head size]. Where no other rank needs it, a table may return what its
            :meth:`product` finishes.
        """
        ...


Table = TypeVar("Table", bound=Operations)


class Llama(Generic[Table]):
    """See :class:`~ChatTTS.model.velocity.loaded_model.LlamaModel`.

    Blocks are [layers, 2 (keys, values), kv heads, positions, head size], in the dtype of the
    weights, or in eight bits, see :mod:`ChatTTS.model.kernels.int8`.

    Args:
        layers: of the rank, on the device, in the dtype to compute in, or in float32 if the
            operations round weights; each is taken when the one before is packed.
        final_norm: [hidden], on that device and in the dtype to compute in.
        operations: what computes.
        block_size: positions of a block.
        communicator: how the rank reaches the others, if there are any.
    """

    def __init__(
        self,
        layers: Iterable[LayerWeights],
        final_norm: Tensor,
        operations: Table,
        block_size: int,
        communicator: Communicator | None = None,
    ) -> None:
        self.operations, self._final_norm = operations, final_norm
        self._shape, self._shard = operations.shape, operations.shard
        self._communicator = None if self._shard.ranks == 1 else communicator
        # How many columns each rank of the stage has.
        self._queries = self._shard.query_columns()
        self._inner = self._shard.columns(self._shape.intermediate_size)
        self._hidden = self._shard.columns(self._shape.hidden_size)
        shape, self._stored = self._shard.local.block_shape(block_size), final_norm.dtype
        if operations.int8_cache:
            shape, self._stored = int8.block_shape(shape), torch.int8
        self._block_shape = shape
        # The matrices of each layer, and the weights of its two norms, [hidden].
        self._layers = [
            (
                operations.pack(index, layer),
                layer.attention_norm.to(final_norm.dtype),
                layer.mlp_norm.to(final_norm.dtype),
            )
            for index, layer in enumerate(layers)
        ]
        self.gives_attention = operations.gives_attention

    @classmethod
    def load(
        cls,
        file: LlamaFile,
        dtype: torch.dtype,
        operations: Table,
        block_size: int,
        communicator: Communicator | None = None,
    ) -> Llama[Table]:
        """Read the rank's weights of a file onto the device."""
        shard, device = operations.shard, operations.device
        given = torch.float32 if operations.int8_weights else dtype
        layers = (file.layer(index, given, shard).to(device) for index in shard.layers)
        return cls(layers, file.final_norm(dtype).to(device), operations, block_size, communicator)

    def new_pool(self, num_blocks: int) -> Tensor:
        return self._final_norm.new_empty(num_blocks, *self._block_shape, dtype=self._stored)

    @property
    def block_bytes(self) -> int:
        return torch.Size(self._block_shape).numel() * self._stored.itemsize

    def new_rows(self, rows: int) -> Tensor:
        return self._final_norm.new_empty(rows, self._shape.hidden_size)

    @torch.inference_mode()
    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        operations, shard = self.operations, self._shard
        if batch.probe is not None:
            batch = replace(batch, probe=batch.probe.of_shard(shard))
        rows, adapter_of = operations.metadata(batch, pool), operations.adapters(batch)
        if batch.given is None:
            inputs = (self._put(each) for each in (batch.kinds, batch.ids, batch.vectors))
            x = operations.embed(*inputs)
        else:
            x = batch.given.contiguous()
        x = self.apply_layers(x, rows, pool, adapter_of=adapter_of)
        return on_host(self.normed(x[self._put(batch.draws)])) if shard.is_last else x

    def apply_layers(
        self,
        x: Tensor,
        rows: Metadata,
        pool: Tensor,
        kept: Tensor | None = None,
        adapter_of: Adapters = None,
    ) -> Tensor:
        """Apply all layers to the rows, and write their keys and values into the pool.

        Args:
            x: [rows, hidden], the embedded rows; overwritten.
            rows: position and block table of each row, as the operations want them.
            pool: the KV cache's blocks.
            kept: [layers, rows or more, outputs]; receives queries, keys and values before the
                rotation.
            adapter_of: the adapters of the rows; ``None`` if no row has one.

        Returns:
            ``x``, which holds the hidden states before the final norm.
        """
        operations, eps = self.operations, self._shape.rms_norm_eps
        for index, (layer, attention_norm, mlp_norm) in enumerate(self._layers):
            following, *_ = self._layers[(index + 1) % len(self._layers)]
            out = None if kept is None else kept[index, : len(x)]
            norm = attention_norm, eps
            qkv = operations.product(x, layer.qkv, adapter_of, norm=norm, out=out)
            ahead = layer.out, layer.gate_up, layer.down, following.qkv
            context = operations.attend(qkv, rows, pool, index, ahead)
            self._add(context, self._queries, layer.out, x, adapter_of)
            norm = mlp_norm, eps
            gated = operations.product(x, layer.gate_up, adapter_of, norm=norm)
            self._add(gated, self._inner, layer.down, x, adapter_of)
        return x

    def _add(
        self, inputs: Context, columns: list[int], matrix: Matrix, x: Tensor, adapters: Adapters
    ) -> None:
        """Add the product of ``inputs`` and the rank's ``matrix`` to ``x``.

        Args:
            inputs: the rank's columns of the rows.
            columns: how many columns each rank of the stage has.
        """
        multiply = self.operations.product
        if self._communicator is None:
            multiply(inputs, matrix, adapters, residual=x)
            return
        inputs = self._communicator.all_gather(inputs, columns)
        own = self._shard.outputs(x.shape[1])
        part = x[:, own.start : own.stop].contiguous()
        part = multiply(inputs, matrix, adapters, residual=part)
        x.copy_(self._communicator.all_gather(part, self._hidden))

    def normed(self, x: Tensor) -> Tensor:
        """Apply the final norm to what :meth:`apply_layers` returned."""
        return self.operations.norm(x, self._final_norm, self._shape.rms_norm_eps)

    def _put(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self.operations.device)
