"""The engine's CUDA Llama for the standard path: what ``experimental=True`` loads on CUDA."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ...utils.locks import new_lock
from ..cuda import graphs
from ..cuda.graphs import Recorder, Recording
from ..cuda.support import on_device
from ..llama.config import LlamaShape
from ..llama.weights import LlamaFile
from ..velocity.backends.cuda.operations import AttentionMetadata, TritonOperations
from ..velocity.layers import Llama
from .paged_cache import BlockStore, PagedCache

BLOCK_SIZE = 32
# Positions that the store has room for at first, over all rows.
_FIRST_POSITIONS = 4096
# Rows of prompts that are computed at a time. It bounds the memory of attention.
_MAX_ROWS = 2048


@dataclass(frozen=True)
class LlamaOutput:
    """The output of a call, with the attribute name that transformers' models use.

    Attributes:
        last_hidden_state: [B, n, hidden], after the final norm.
    """

    last_hidden_state: Tensor


class TELlamaModel:
    """The engine's CUDA Llama with the interface of transformers' ``LlamaModel``; thread-safe.

    Keys and values lie in blocks, at their true positions. So a decode step (one position per row)
    is recorded once for each number of rows. It is then replayed in one launch, whatever the cache
    contains.

    Args:
        llama: computes the rows.
        max_positions: how many positions a sequence may have.
        recorder: records the decode steps.
    """

    def __init__(
        self, llama: Llama[TritonOperations], max_positions: int, recorder: Recorder
    ) -> None:
        self._llama, self._max_positions, self._recorder = llama, max_positions, recorder
        self._width = -(-max_positions // BLOCK_SIZE)
        self._store = BlockStore(llama.new_pool, _FIRST_POSITIONS // BLOCK_SIZE)
        # The recorded steps read fixed inputs, which all threads share.
        self._lock = new_lock()
        self._steps: dict[int, tuple[_DecodeInputs, Recording[Tensor]]] = {}
        self._recorded_on: Tensor | None = None

    def new_cache(self) -> PagedCache:
        """Return an empty cache for one batch; only this model can use it."""
        return PagedCache(self._store, self._width)

    @torch.inference_mode()
    def __call__(
        self,
        *,
        inputs_embeds: Tensor,
        attention_mask: Tensor | None,
        position_ids: Tensor,
        past_key_values: PagedCache | None,
        use_cache: bool,
    ) -> LlamaOutput:
        """Compute the hidden states of new positions.

        Args:
            inputs_embeds: [B, n, hidden].
            attention_mask: [B, earlier and new positions], 0 where a row is padded on its left;
                ``None`` without padding.
            position_ids: [B, n], true positions: padding does not count.
            past_key_values: the cache of the earlier positions, to which the new ones are added;
                ``None`` if there are no earlier positions.
            use_cache: accepted because transformers has it; a cache that is given is always used.

        Raises:
            GenerationError: the device has no memory for more blocks.
        """
        batch, new, hidden = inputs_embeds.shape
        cache = self.new_cache() if past_key_values is None else past_key_values
        device = self._store.pool.device
        with self._lock, on_device(device):
            max_positions = int(position_ids.max()) + 1
            cache.reserve(batch, max_positions)
            table_of = torch.arange(batch, dtype=torch.int32, device=device)
            if new > 1:
                table_of = table_of.repeat_interleave(new)
                if attention_mask is not None:
                    real = attention_mask[:, -new:].flatten().bool()
                    table_of = table_of.masked_fill(~real, -1)
            rows = AttentionMetadata(
                positions=position_ids.flatten().int().contiguous(),
                tables=cache.tables,
                table_of=table_of,
                max_positions=max_positions,
                is_decode=new == 1,
            )
            compute = self._decode if rows.is_decode else self._prefill
            states = compute(inputs_embeds.flatten(0, 1), rows)
            return LlamaOutput(states.view(batch, new, hidden))

    def _prefill(self, embeds: Tensor, rows: AttentionMetadata) -> Tensor:
        """Compute the states [rows, hidden] of several positions of each sequence."""
        states = torch.empty_like(embeds)
        for start in range(0, len(embeds), _MAX_ROWS):
            part = slice(start, start + _MAX_ROWS)
            chunk = replace(rows, positions=rows.positions[part], table_of=rows.table_of[part])
            states[part] = self._computed(embeds[part], chunk)
        return states

    def _decode(self, embeds: Tensor, rows: AttentionMetadata) -> Tensor:
        """Compute the states [rows, hidden] of one position of each sequence."""
        if self._recorded_on is not self._store.pool:
            self._steps, self._recorded_on = {}, self._store.pool
            self._recorder.start_over()
        bucket = 1 << (len(embeds) - 1).bit_length()
        if bucket not in self._steps:
            inputs = self._new_inputs(bucket)
            self._steps[bucket] = inputs, self._recorder.record(partial(self._step, inputs))
        inputs, recording = self._steps[bucket]
        inputs.fill(embeds, rows)
        recording.replay()
        return recording.result[: len(embeds)].clone()

    def _step(self, inputs: _DecodeInputs) -> Tensor:
        return self._computed(inputs.embeds, inputs.rows)

    def _computed(self, embeds: Tensor, rows: AttentionMetadata) -> Tensor:
        x = self._llama.apply_layers(embeds.clone(), rows, self._store.pool)
        return self._llama.normed(x)

    def _new_inputs(self, rows: int) -> _DecodeInputs:
        """Return the inputs of ``rows`` padding rows."""
        embeds = self._llama.new_rows(rows).zero_()
        whole = partial(torch.zeros, dtype=torch.int32, device=embeds.device)
        places = AttentionMetadata(
            positions=whole(rows),
            tables=whole(rows, self._width),
            table_of=whole(rows) - 1,
            max_positions=self._max_positions,
            is_decode=True,
        )
        return _DecodeInputs(embeds, places)


@dataclass(frozen=True)
class _DecodeInputs:
    """The inputs of a recorded step, at fixed addresses; unused rows are padding."""

    embeds: Tensor
    rows: AttentionMetadata

    def fill(self, embeds: Tensor, rows: AttentionMetadata) -> None:
        """Write the batch into the first rows, and mark all other rows as padding."""
        count = len(embeds)
        self.embeds[:count] = embeds
        self.rows.positions[:count] = rows.positions
        self.rows.tables[:count] = rows.tables
        self.rows.table_of[:count] = rows.table_of
        self.rows.table_of[count:] = -1


def load_te_llama(
    weights: Path, shape: LlamaShape, device: torch.device, dtype: torch.dtype
) -> TELlamaModel:
    """Load the Llama of ``asset/gpt/model.safetensors`` onto the device.

    Raises:
        AssetError: the file cannot be used.
        EngineUnavailableError, ConfigError: the kernels cannot run this Llama.
    """
    operations = TritonOperations(shape, None, device, batch_invariant=True)
    llama = Llama.load(LlamaFile(weights, shape), dtype, operations, BLOCK_SIZE)
    advice = "take fewer texts at a time (max_split_batch)"
    recorder = graphs.CudaRecorder(device, advice=advice)
    return TELlamaModel(llama, shape.max_position_embeddings, recorder)
