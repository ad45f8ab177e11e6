"""The accelerated Llama of the standard path: what ``experimental=True`` loads on CUDA."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ...utils.locks import new_lock
from ..cuda import graphs
from ..cuda.graphs import Recorder, Recording
from ..cuda.support import on_device
from ..devices.precision import ieee_float32
from ..kernels.cuda.norm import rms_norm
from ..kernels.cuda.prefill import tiles_of
from ..llama.config import LlamaShape
from ..llama.rotary import rotary_tables
from ..llama.weights import LayerWeights, LlamaFile
from ..velocity.backends.cuda.layers import AttentionMetadata, TritonLayers
from .paged_cache import BlockStore, PagedCache

BLOCK_SIZE = 32
# Positions that the store has room for at first, over all rows.
_FIRST_POSITIONS = 4096


@dataclass(frozen=True)
class LlamaOutput:
    """The output of a call, with the attribute name that transformers' models use.

    Attributes:
        last_hidden_state: [B, n, hidden], after the final norm.
    """

    last_hidden_state: Tensor


class TELlamaModel:
    """A replacement of transformers' ``LlamaModel`` that runs on Triton kernels.

    Keys and values lie in blocks, at their true positions. So a decode step (one position per row)
    is recorded once for each number of rows. It is then replayed in one launch, whatever the cache
    contains.

    Args:
        shape: sizes and constants.
        layers: the layers' weights on the device, in the dtype to compute in.
        final_norm: [hidden], on that device and in that dtype.
        rotary: cosines and sines, each float32 [positions, head size].
        recorder: records the decode steps.

    Raises:
        ConfigError: the attention heads are too large for the kernels.
    """

    def __init__(
        self,
        shape: LlamaShape,
        layers: Iterable[LayerWeights],
        final_norm: Tensor,
        rotary: tuple[Tensor, Tensor],
        recorder: Recorder,
    ) -> None:
        self._shape, self._final_norm, self._recorder = shape, final_norm, recorder
        self._device, self._dtype = final_norm.device, final_norm.dtype
        self._layers = TritonLayers(shape, layers, rotary, row_independent=False)
        self._width = -(-shape.max_position_embeddings // BLOCK_SIZE)
        self._store = BlockStore(self._new_pool, _FIRST_POSITIONS // BLOCK_SIZE)
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
        batch, new, _ = inputs_embeds.shape
        cache = self.new_cache() if past_key_values is None else past_key_values
        with self._lock, on_device(self._device):
            cache.reserve(batch, int(position_ids.max()) + 1)
            if new == 1:
                states = self._decode(inputs_embeds[:, 0], position_ids[:, 0], cache.tables)
                return LlamaOutput(states.unsqueeze(1))
            real = None if attention_mask is None else attention_mask[:, -new:].bool()
            return LlamaOutput(self._prefill(inputs_embeds, real, position_ids, cache.tables))

    def _prefill(
        self, embeds: Tensor, real: Tensor | None, positions: Tensor, tables: Tensor
    ) -> Tensor:
        """Compute the states [B, n, hidden] of several positions in each row."""
        batch, new, hidden = embeds.shape
        own = torch.arange(batch, dtype=torch.int32, device=self._device).unsqueeze(1)
        table_of = own.expand(batch, new)
        if real is not None:
            table_of = table_of.masked_fill(~real, -1)
        # With one row, flatten() may return a view that repeats a single number (stride 0).
        table_of = table_of.flatten().contiguous()
        tiles = torch.from_numpy(tiles_of(table_of.cpu().numpy())).to(self._device)
        rows = AttentionMetadata(
            positions=positions.flatten().int().contiguous(),
            tables=tables,
            table_of=table_of,
            most=int(positions.max()) + 1,
            tiles=tiles,
        )
        x = self._layers(embeds.flatten(0, 1).clone(), rows, self._store.pool)
        return self._normed(x).view(batch, new, hidden)

    def _decode(self, embeds: Tensor, positions: Tensor, tables: Tensor) -> Tensor:
        """Compute the states [B, hidden] of one position in each row."""
        if self._recorded_on is not self._store.pool:
            self._steps, self._recorded_on = {}, self._store.pool
            self._recorder.start_over()
        rows = 1 << (len(embeds) - 1).bit_length()
        if rows not in self._steps:
            inputs = _DecodeInputs.empty(rows, self._shape, self._width, self._final_norm)
            with ieee_float32():
                recording = self._recorder.record(partial(self._step, inputs))
            self._steps[rows] = inputs, recording
        inputs, recording = self._steps[rows]
        inputs.fill(embeds, positions, tables)
        recording.replay()
        return recording.result[: len(embeds)].clone()

    def _step(self, inputs: _DecodeInputs) -> Tensor:
        x = self._layers(inputs.embeds.clone(), inputs.rows, self._store.pool)
        return self._normed(x)

    def _new_pool(self, blocks: int) -> Tensor:
        sizes = self._shape.block_shape(BLOCK_SIZE)
        return torch.empty(blocks, *sizes, dtype=self._dtype, device=self._device)

    def _normed(self, x: Tensor) -> Tensor:
        return rms_norm(x, self._final_norm, self._shape.rms_norm_eps)


@dataclass(frozen=True)
class _DecodeInputs:
    """The inputs of a recorded step, at fixed addresses; unused rows are padding."""

    embeds: Tensor
    rows: AttentionMetadata

    @classmethod
    def empty(cls, rows: int, shape: LlamaShape, width: int, like: Tensor) -> _DecodeInputs:
        """Return inputs of ``rows`` padding rows, in the dtype and on the device of ``like``."""

        def whole(*sizes: int) -> Tensor:
            return torch.zeros(*sizes, dtype=torch.int32, device=like.device)

        places = AttentionMetadata(
            positions=whole(rows),
            tables=whole(rows, width),
            table_of=whole(rows) - 1,
            most=shape.max_position_embeddings,
        )
        return cls(like.new_zeros(rows, shape.hidden_size), places)

    def fill(self, embeds: Tensor, positions: Tensor, tables: Tensor) -> None:
        """Write the batch into the first rows, and mark all other rows as padding."""
        count = len(embeds)
        self.embeds[:count] = embeds
        self.rows.positions[:count] = positions
        self.rows.tables[:count] = tables
        self.rows.table_of.fill_(-1)
        self.rows.table_of[:count] = torch.arange(count, dtype=torch.int32, device=tables.device)


def load_te_llama(
    weights: Path, shape: LlamaShape, device: torch.device, dtype: torch.dtype
) -> TELlamaModel:
    """Load the Llama of ``asset/gpt/model.safetensors`` onto the device.

    Raises:
        AssetError: the file cannot be used.
        EngineUnavailableError, ConfigError: the kernels cannot run this Llama.
    """
    file = LlamaFile(weights, shape)
    layers = (file.layer(index, dtype).to(device) for index in range(shape.num_hidden_layers))
    return TELlamaModel(
        shape,
        layers,
        file.final_norm(dtype).to(device),
        rotary_tables(shape),
        graphs.CudaRecorder(device, advice="take fewer texts at a time (max_split_batch)"),
    )
