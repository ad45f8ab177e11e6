"""Load a checkpoint's files into the parts that compute, on the device that was chosen."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import nn

from ...config import Config
from ...errors import ConfigError
from ...utils import machine
from ..cuda import graphs
from ..cuda.support import must_fit, why_no_kernels
from ..devices.placement import choose_placement
from ..embed import Embed, load_embed
from ..kernels.cpu.build import BuildError
from ..kernels.cpu.library import KINDS, Team
from ..kernels.int8 import HEAD_MULTIPLE
from ..llama.config import LlamaShape, read_llama_shape
from ..llama.rotary import rotary_tables
from ..llama.shard import Communicator, GatheredLinear, Shard
from ..llama.weights import LlamaFile
from ..lora.reader import read_adapter
from ..tokenizer import Tokenizer
from .backends.cpu.llama import NativeLlama
from .backends.cpu.packing import PackedLinear, packed_weights
from .backends.cpu.sampler import NativeSampler
from .backends.torch.attention import Attention, TorchAttention
from .backends.torch.linear import MatrixLinear, MatrixMaker, PackedMatrix, TiledMatrix, WholeMatrix
from .backends.torch.operations import TorchOperations
from .backends.torch.row_checks import attention_agrees, packed_rows_agree
from .backends.torch.sampler import TorchSampler
from .backends.torch.tiled_attention import TiledAttention
from .configs import EngineConfig, ParallelConfig
from .layers import Llama, Table
from .loaded_model import LlamaModel, LoadedModel, Sampler

logger = logging.getLogger(__name__)

_HEADS = ("head_text", "head_code")


class ModelLoader:
    """Loads the checkpoint that ``config`` names, for the device that it names.

    Args:
        tokenizer: the checkpoint's, if it has been read and checked already.
        rank: the number of the rank, if it is not the only one.
        communicator: how it reaches the others.
    """

    def __init__(
        self,
        config: EngineConfig,
        tokenizer: Tokenizer | None = None,
        rank: int = 0,
        communicator: Communicator | None = None,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._rank, self._communicator = rank, communicator
        self._folder = asset_folder(config.model.folder)
        self._placement = choose_placement(config.model.device, config.model.dtype)
        self._quantization = config.model.quantization or self._placement.quantization
        self._int8_cache = config.cache.kv_cache_dtype == "int8"

    def load(self) -> LoadedModel:
        """Read, check and pack the files.

        Raises:
            ChatTTSError: a file is missing, damaged or does not fit; the message names it.
        """
        sizes = Config.from_file(self._folder / "config.json")
        shape = read_llama_shape(self._folder / "gpt" / "config.json", sizes.gpt)
        file = LlamaFile(self._folder / "gpt" / "model.safetensors", shape)
        self._shard = shard_of(self._config.parallel, shape, self._rank)
        self._adapters = tuple(
            read_adapter(folder, name, shape) for name, folder in self._config.model.adapters
        )
        advice = "end what else uses it, take dtype='bfloat16', or device='cpu'"
        with must_fit("the model", self._placement.device, advice):
            return self._load(sizes, file)

    def _load(self, sizes: Config, file: LlamaFile) -> LoadedModel:
        tokenizer = self._tokenizer
        if tokenizer is None:
            tokenizer = Tokenizer(self._folder / "tokenizer")
            tokenizer.check_ids(sizes.gpt.num_text_tokens)
        device, dtype = self._placement.device, self._placement.dtype
        team, stored = self._team(), self._placement
        if team is not None and stored.quantization is not None:
            # In one dtype whatever the processor is fast in: int8 gives equal codes everywhere.
            stored = replace(stored, dtype=torch.bfloat16)
        embed = load_embed(self._folder / "Embed.safetensors", sizes.embed, stored)
        outputs = self._keep_own_heads(embed)
        capturer: graphs.GraphCapturer | None = None
        kernels = team is None and self._has_triton(file.shape)
        if self._int8_cache:
            self._check_int8_cache(file.shape, team, kernels=kernels)
        if team is not None:
            kind = self._quantization or _name(dtype)
            llama: LlamaModel = self._native(team, file, kind, embed)
            sampler: Sampler = NativeSampler(team)
            how = f"CPU kernels ({team.about}), {kind}, {team.size} threads"
        else:
            if kernels:
                llama, sampler, capturer = self._triton(file, embed)
            else:
                if self._quantization is not None:
                    logger.warning(
                        "quantization is not used: it needs the CPU kernels, or Triton kernels"
                    )
                llama, sampler = self._torch(file, embed, outputs), TorchSampler()
            how = f"{'Triton kernels' if kernels else 'torch'}, {dtype}, {device}"
            how += ", weights in int8" if kernels and self._quantization is not None else ""
            how += ", keys and values in int8" if self._int8_cache else ""
        logger.info("velocity computes with %s", how)
        self._gather_heads(embed, outputs)
        return LoadedModel(
            sizes,
            tokenizer,
            file.shape,
            embed,
            llama,
            sampler,
            self._placement,
            how,
            self._shard,
            self._communicator,
            capturer,
            self._adapters,
            compiles=kernels,
        )

    def _check_int8_cache(self, shape: LlamaShape, team: Team | None, *, kernels: bool) -> None:
        """Raise ConfigError where keys and values cannot be in eight bits."""
        if kernels and shape.head_dim % HEAD_MULTIPLE:
            raise ConfigError(
                "kv_cache_dtype='int8' needs a model whose attention heads have a multiple of "
                f"{HEAD_MULTIPLE} numbers, not {shape.head_dim}: leave it out"
            )
        if not kernels and (team is None or self._quantization is None):
            raise ConfigError(
                "kv_cache_dtype='int8' needs an NVIDIA GPU with Triton kernels, or the CPU kernels "
                "with dtype='int8', whose keys and values always have eight bits: leave it out"
            )

    def _keep_own_heads(self, embed: Embed) -> dict[str, int]:
        """Cut the heads to the rank's outputs; return the outputs of all ranks, by name."""
        outputs = {name: len(getattr(embed, name).weight) for name in _HEADS}
        if self._communicator is not None:
            for name, count in outputs.items():
                rows = self._shard.outputs(count) if self._shard.is_last else range(0)
                weight = getattr(embed, name).weight[rows.start : rows.stop].clone()
                getattr(embed, name).weight = nn.Parameter(weight, requires_grad=False)
        return outputs

    def _gather_heads(self, embed: Embed, outputs: Mapping[str, int]) -> None:
        if self._communicator is not None:
            for name, count in outputs.items():
                columns = self._shard.columns(count)
                whole = GatheredLinear(getattr(embed, name), self._communicator, columns)
                setattr(embed, name, whole)

    def _team(self) -> Team | None:
        """Return the threads of the CPU kernels, or ``None`` if these cannot be used."""
        if self._placement.device.type != "cpu" or _name(self._placement.dtype) not in KINDS:
            return None
        try:
            cores = max(1, int(machine.usable_cores()))
            return Team(self._config.model.num_threads or cores)
        except BuildError as error:
            logger.warning(
                "velocity computes with torch alone, which is slower than its CPU kernels: %s",
                error,
            )
            return None

    def _native(self, team: Team, file: LlamaFile, kind: str, embed: Embed) -> NativeLlama:
        weights = packed_weights(team, file, kind, self._shard)
        # Eight bits would cost more here than they save.
        heads = _name(embed.code.weight.dtype)
        if self._quantization is not None and heads == "bfloat16":
            heads = "wide bfloat16"
        for name in _HEADS:
            setattr(embed, name, PackedLinear(team, getattr(embed, name).weight, heads))
        return NativeLlama(
            team,
            file.shape,
            weights,
            kind,
            embed,
            rotary_tables(file.shape),
            self._config.cache.block_size,
            self._shard,
            self._communicator,
            self._adapters,
        )

    def _has_triton(self, shape: LlamaShape) -> bool:
        if self._placement.device.type != "cuda":
            return False
        reason = why_no_kernels(self._placement.device, shape.head_dim)
        if reason is not None:
            logger.warning("velocity computes with torch alone, which is slower: %s", reason)
        return reason is None

    def _triton(
        self, file: LlamaFile, embed: Embed
    ) -> tuple[LlamaModel, Sampler, graphs.GraphCapturer | None]:
        """Return the Llama, the sampler and the capturer for CUDA.

        Steps of several ranks are not captured: they exchange rows in the middle.
        """
        from ..kernels.cuda.products import product
        from .backends.cuda.operations import TritonOperations
        from .backends.cuda.sampler import TritonSampler

        device = self._placement.device
        for name in _HEADS:
            weight = getattr(embed, name).weight.detach()
            multiply = partial(product, weight=weight, out_dtype=torch.float32)
            setattr(embed, name, MatrixLinear(multiply))
        operations = TritonOperations(
            file.shape,
            embed,
            device,
            batch_invariant=self._config.model.batch_invariant,
            shard=self._shard,
            adapters=self._adapters,
            int8_cache=self._int8_cache,
            int8_weights=self._quantization is not None,
        )
        llama = self._llama(file, operations)
        if self._communicator is not None:
            return llama, TritonSampler(), None
        advice = "give less kv_memory, lower max_num_seqs, or end what else uses the GPU"
        capturer = graphs.CudaGraphCapturer(device, advice=advice, priority=graphs.ENGINE_PRIORITY)
        return llama, TritonSampler(), capturer

    def _torch(self, file: LlamaFile, embed: Embed, outputs: Mapping[str, int]) -> LlamaModel:
        device, dtype = self._placement.device, self._placement.dtype
        make = matrix_maker(
            self._shard,
            outputs.values(),
            dtype,
            device,
            batch_invariant=self._config.model.batch_invariant,
        )
        for name, count in outputs.items():
            weight = getattr(embed, name).weight.detach()
            setattr(embed, name, MatrixLinear(make(weight, self._shard.piece(count))))
        operations = TorchOperations(
            file.shape,
            embed,
            torch_attention(self._shard, self._config.cache.block_size, device),
            make,
            shard=self._shard,
            adapters=self._adapters,
        )
        return self._llama(file, operations)

    def _llama(self, file: LlamaFile, operations: Table) -> Llama[Table]:
        size = self._config.cache.block_size
        return Llama.load(file, self._placement.dtype, operations, size, self._communicator)


def matrix_maker(
    shard: Shard,
    heads: Collection[int],
    dtype: torch.dtype,
    device: torch.device,
    *,
    batch_invariant: bool,
) -> MatrixMaker:
    """Return the fastest matrices on torch that keep the promise.

    Args:
        shard: of any rank of the model.
        heads: outputs of the heads.
        batch_invariant: compute so that no bit of a row depends on the other rows, or on the number
            of ranks.
    """
    if device.type == "cpu" and packed_rows_agree(shard, heads, dtype):
        return PackedMatrix
    return TiledMatrix if batch_invariant else WholeMatrix


def torch_attention(shard: Shard, block_size: int, device: torch.device) -> Attention:
    """Return the fastest attention on torch in which no bit of a row depends on the other rows."""
    if device.type == "cpu" and attention_agrees(shard.shape):
        return TiledAttention(shard.local, block_size)
    return TorchAttention()


def asset_folder(folder: Path) -> Path:
    """Return the folder with a checkpoint's files, given that folder or the one that holds it."""
    return folder / "asset" if (folder / "asset").is_dir() else folder


def shard_of(parallel: ParallelConfig, shape: LlamaShape, rank: int) -> Shard:
    """Return the part of a model that a rank has. Ranks count stage after stage.

    Raises:
        ConfigError: the model cannot be divided among these ranks.
    """
    stage, place = divmod(rank, parallel.tensor_parallel_size)
    return Shard(
        shape, place, parallel.tensor_parallel_size, stage, parallel.pipeline_parallel_size
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
