"""The Llama of the engine on the CPU kernels: a whole step in one call."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

from ....embed import Embed
from ....kernels.cpu import library
from ....kernels.cpu.library import Team, address, addresses
from ....llama.config import LlamaShape
from ....llama.shard import Communicator, Shard
from ....lora.adapter import Adapter
from ...input_batch import AttentionProbe, InputBatch
from .lora import PackedAdapters
from .packing import PackedWeights, private_memory


class NativeLlama:
    """See :class:`~ChatTTS.model.velocity.loaded_model.LlamaModel`.

    Args:
        team: the threads to compute on.
        weights: packed as ``kind``; those of ``shard``.
        embed: tables in float32 or bfloat16. Keys and values are kept in that dtype, and in eight
            bits where the weights are.
        rotary: cosines and sines, each float32 [positions, head size].
        shard, communicator: the rank, and how it reaches the others; by default it is the only one.
        adapters: those that rows may have; none if there are several ranks.
    """

    gives_attention = True

    def __init__(
        self,
        team: Team,
        shape: LlamaShape,
        weights: PackedWeights,
        kind: str,
        embed: Embed,
        rotary: tuple[Tensor, Tensor],
        block_size: int,
        shard: Shard | None = None,
        communicator: Communicator | None = None,
        adapters: Sequence[Adapter] = (),
    ) -> None:
        shard = shard or Shard(shape)
        self._shard, self._is_last = shard, shard.is_last
        self._gathers = (
            None if communicator is None or shard.ranks == 1 else _Gathers(shard, communicator)
        )
        own_hidden, own_inner = (
            shard.outputs(shape.hidden_size),
            shard.outputs(shape.intermediate_size),
        )
        self._team = team
        self._library = team.library
        self._hidden = shape.hidden_size
        self._kind = library.KINDS[kind]
        self._wide = int(embed.code.weight.dtype is torch.float32)
        self._sizes = library.NativeSizes(
            hidden=shape.hidden_size,
            intermediate=shape.intermediate_size,
            layers=len(shard.layers),
            heads=len(shard.heads),
            kv_heads=len(shard.kv_heads),
            head_size=shape.head_dim,
            num_codebooks=embed.num_codebooks,
            block_size=block_size,
            audio_tokens=embed.num_audio_tokens,
            queries=shape.num_attention_heads * shape.head_dim,
            first_query=shard.heads.start * shape.head_dim,
            first_hidden=own_hidden.start,
            own_hidden=len(own_hidden),
            first_inner=own_inner.start,
            own_inner=len(own_inner),
            eps=shape.rms_norm_eps,
        )
        given_tables = (embed.text.weight, embed.code.weight, *rotary)
        # Detached: moving or casting the module would put its parameters into other memory.
        tables = [table.detach().contiguous() for table in given_tables]
        packed = PackedAdapters(adapters, shape, self._library.chattts_panel())
        self._held = (weights, packed, *tables)  # the kernels keep addresses only
        fields = library.NativeLayer._fields_
        layers = (library.NativeLayer * len(shard.layers))(
            *(
                library.NativeLayer(
                    **{field[0]: weights.address(index, field[0]) for field in fields}
                )
                for index in range(len(shard.layers))
            )
        )
        names = ("text_table", "code_table", "cosines", "sines")
        given = library.NativeWeights(
            layers=layers,
            adapters=packed.products,
            max_rank=packed.max_rank,
            final_norm=weights.address(-1, "final_norm"),
            **{name: address(table) for name, table in zip(names, tables, strict=True)},
        )
        self._handle = self._library.chattts_llama(
            self._kind, self._wide, ctypes.byref(self._sizes), ctypes.byref(given)
        )
        # Not at exit, as for the team: a thread may still be computing.
        weakref.finalize(self, self._library.chattts_llama_delete, self._handle).atexit = False

    @property
    def block_bytes(self) -> int:
        size = int(
            self._library.chattts_block_bytes(self._kind, self._wide, ctypes.byref(self._sizes))
        )
        return -(-size // library.ALIGNMENT) * library.ALIGNMENT

    def new_pool(self, num_blocks: int) -> Tensor:
        size = num_blocks * self.block_bytes
        return private_memory(size).view(num_blocks, self.block_bytes)

    def new_rows(self, rows: int) -> Tensor:
        return torch.empty(rows, self._hidden, dtype=torch.float32, device="cpu")

    def forward(self, batch: InputBatch, pool: Tensor) -> Tensor:
        rows, draws = len(batch.kinds), len(batch.draws)
        hidden = draws if self._is_last else rows
        out = torch.empty(hidden, self._hidden, dtype=torch.float32, device="cpu")
        arrays = batch.kinds, batch.ids, batch.positions, batch.tables, batch.table_of, batch.draws
        *places, vectors = addresses(*arrays, batch.vectors)
        width = batch.tables.shape[1]
        inputs = library.NativeBatch(
            rows, draws, width, *places, vectors=vectors, pool=pool.data_ptr()
        )
        if self._is_last:
            inputs.hiddens = out.data_ptr()
        else:
            inputs.passed = out.data_ptr()
        if batch.adapter_of is not None:
            inputs.adapter_of = address(batch.adapter_of)
        if batch.given is not None:
            inputs.given = batch.given.data_ptr()
        if self._gathers is not None:
            inputs.gather = self._gathers.call
        probe = None if batch.probe is None else batch.probe.of_shard(self._shard)
        if probe is not None:
            _set_probe(inputs, probe)
        self._library.chattts_forward(self._team.handle, self._handle, ctypes.byref(inputs))
        if self._gathers is not None:
            self._gathers.check()
        return out


class _Gathers:
    """Fetches the columns of the other ranks in the middle of a step.

    Args:
        shard: the rank.
        communicator: the other ranks.

    Attributes:
        call: what the kernels call.
    """

    def __init__(self, shard: Shard, communicator: Communicator) -> None:
        shape = shard.shape
        self._communicator, self._rank = communicator, shard.rank
        self._columns = {
            library.ATTENDED: shard.query_columns(),
            library.HIDDEN: shard.columns(shape.hidden_size),
            library.GATED: shard.columns(shape.intermediate_size),
        }
        self._error: BaseException | None = None
        self.call = library.Gather(self._gather)

    def check(self) -> None:
        """Raise the error that ended the exchange of the last step, if one did."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _gather(self, what: int, data: int, rows: int, stride: int, item: int) -> None:
        if self._error is not None:
            return  # the step has failed already
        try:
            room = (ctypes.c_uint8 * (rows * stride)).from_address(data)
            whole = torch.frombuffer(room, dtype=torch.uint8).view(rows, stride)
            columns = [count * item for count in self._columns[what]]
            first = sum(columns[: self._rank])
            part = whole[:, first : first + columns[self._rank]]
            whole[:, : sum(columns)] = self._communicator.all_gather(part, columns)
        except BaseException as error:  # an exception cannot pass through the kernels
            self._error = error


def _set_probe(inputs: library.NativeBatch, probe: AttentionProbe) -> None:
    """Give the kernels the addresses of the probe's arrays."""
    names = ("first", "layers", "heads", "columns", "starts", "out")
    places = addresses(*[getattr(probe, name) for name in names])
    for name, place in zip(names, places, strict=True):
        setattr(inputs, f"probe_{name}", place)
