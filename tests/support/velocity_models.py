"""Small Llamas of any shape, a slow reference in double precision, and sequences to run on them."""

from __future__ import annotations

import json
import math
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from ChatTTS.config import EmbedConfig
from ChatTTS.model.embed import Embed, RowKind
from ChatTTS.model.kernels.cpu.build import BuildError
from ChatTTS.model.kernels.cpu.library import Team
from ChatTTS.model.llama.config import LlamaShape, module_of, projections
from ChatTTS.model.llama.rotary import rotary_tables
from ChatTTS.model.llama.shard import Communicator, Shard
from ChatTTS.model.llama.weights import LlamaFile
from ChatTTS.model.lora.adapter import Adapter
from ChatTTS.model.velocity.backends.cpu import packed_files, packing
from ChatTTS.model.velocity.backends.cpu.llama import NativeLlama
from ChatTTS.model.velocity.backends.cpu.packing import PackedWeights
from ChatTTS.model.velocity.backends.torch.attention import Attention
from ChatTTS.model.velocity.backends.torch.linear import MatrixMaker
from ChatTTS.model.velocity.backends.torch.operations import TorchOperations
from ChatTTS.model.velocity.input_batch import InputBatch
from ChatTTS.model.velocity.layers import Llama
from ChatTTS.model.velocity.loaded_model import LlamaModel
from ChatTTS.model.velocity.model_loader import matrix_maker, torch_attention

from .places import DATA

NUM_CODEBOOKS, CODES, TEXTS = 4, 60, 50
CPU = torch.device("cpu")


def make_team(size: int) -> Team:
    """Return a team of threads of the kernels; skip the test where there is no compiler."""
    try:
        return Team(size)
    except BuildError as error:
        if "no C++ compiler" in str(error):
            pytest.skip(str(error))
        raise


# ---------------------------------------------------------------- checkpoints


def make_shape(
    hidden: int = 64,
    heads: int = 4,
    kv_heads: int = 4,
    head_dim: int = 16,
    *,
    inner: int = 100,
    layers: int = 2,
    **others: Any,
) -> LlamaShape:
    return LlamaShape(
        hidden_size=hidden,
        intermediate_size=inner,
        num_attention_heads=heads,
        num_hidden_layers=layers,
        max_position_embeddings=160,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        **others,
    )


def make_tensors(shape: LlamaShape, seed: int = 0) -> dict[str, Tensor]:
    """Random weights under the names of Llama checkpoints."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(outputs: int, inputs: int) -> Tensor:
        return torch.randn(outputs, inputs, generator=generator) * 1.5 / math.sqrt(inputs)

    def norm() -> Tensor:
        return 0.5 + torch.rand(shape.hidden_size, generator=generator)

    tensors = {"norm.weight": norm()}
    for index in range(shape.num_hidden_layers):
        own = {f"{module_of(n)}.{n}": matrix(*size) for n, size in projections(shape).items()}
        own |= {"input_layernorm": norm(), "post_attention_layernorm": norm()}
        tensors |= {f"layers.{index}.{name}.weight": tensor for name, tensor in own.items()}
    return tensors


def make_embed(hidden: int, dtype: torch.dtype = torch.float32) -> Embed:
    embed = Embed(EmbedConfig(hidden, CODES, TEXTS, NUM_CODEBOOKS))
    generator = torch.Generator().manual_seed(1)
    for parameter in embed.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    return embed.to(dtype).requires_grad_(False)


def save_llama(folder: Path, shape: LlamaShape) -> LlamaFile:
    path = folder / "model.safetensors"
    save_file(make_tensors(shape), path)
    return LlamaFile(path, shape)


def copy_checkpoint(folder: Path, name: str = "model-a") -> Path:
    """A conformance model that a test may damage."""
    return Path(shutil.copytree(DATA / name, folder / name))


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def torch_llama(
    file: LlamaFile,
    embed: Embed,
    block_size: int,
    dtype: torch.dtype = torch.float32,
    *,
    matrices: MatrixMaker | None = None,
    attention: Attention | None = None,
    shard: Shard | None = None,
    communicator: Communicator | None = None,
    adapters: Sequence[Adapter] = (),
) -> Llama[TorchOperations]:
    """The Llama on torch; matrices and attention are by default those that the loader takes."""
    own = shard or Shard(file.shape)
    operations = TorchOperations(
        file.shape,
        embed,
        attention or torch_attention(own, block_size, CPU),
        matrices or matrix_maker(own, (), dtype, CPU, batch_invariant=True),
        shard=shard,
        adapters=adapters,
    )
    return Llama.load(file, dtype, operations, block_size, communicator)


def native_llama(
    file: LlamaFile,
    embed: Embed,
    block_size: int,
    kind: str = "float32",
    threads: int = 2,
    shard: Shard | None = None,
    communicator: Communicator | None = None,
    adapters: Sequence[Adapter] = (),
) -> NativeLlama:
    team = make_team(threads)
    weights = packing.packed_weights(team, file, kind, shard)
    rotary = rotary_tables(file.shape)
    return NativeLlama(
        team, file.shape, weights, kind, embed, rotary, block_size, shard, communicator, adapters
    )


# ---------------------------------------------------------------- the slow one


def recompute(tensors: dict[str, Tensor], shape: LlamaShape, x: Tensor, rope: float = 1) -> Tensor:
    """Return hidden states [positions, hidden] of inputs of that shape, all at once, in float64.

    Args:
        rope: the divisor of the positions.
    """
    weights = {name: tensor.double() for name, tensor in tensors.items()}
    length, size = len(x), shape.head_dim
    frequencies = shape.rope_theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(length, dtype=torch.float64) / rope, frequencies)
    turn = torch.polar(torch.ones_like(angles), angles).unsqueeze(1)

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.pow(2).mean(-1, keepdim=True) + shape.rms_norm_eps).sqrt() * weight

    def rotated(x: Tensor) -> Tensor:
        turned = torch.complex(*x.chunk(2, dim=-1)) * turn
        return torch.cat([turned.real, turned.imag], dim=-1)

    x = x.double()
    groups = shape.num_attention_heads // shape.num_key_value_heads
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    for index in range(shape.num_hidden_layers):
        own = {n.split(".")[-2]: w for n, w in weights.items() if f"layers.{index}." in n}
        normed = norm(x, own["input_layernorm"])
        q, k, v = ((normed @ own[f"{n}_proj"].T).view(length, -1, size) for n in "qkv")
        k, v = (part.repeat_interleave(groups, dim=1) for part in (rotated(k), v))
        scores = torch.einsum("qhd,khd->hqk", rotated(q), k) / math.sqrt(size)
        scores = scores.masked_fill(future, -math.inf).softmax(-1)
        x = x + torch.einsum("hqk,khd->qhd", scores, v).flatten(1) @ own["o_proj"].T
        normed = norm(x, own["post_attention_layernorm"])
        gate = normed @ own["gate_proj"].T
        x = x + (gate * gate.sigmoid() * (normed @ own["up_proj"].T)) @ own["down_proj"].T
    return norm(x, weights["norm.weight"])


# ---------------------------------------------------------------- sequences


@dataclass(frozen=True)
class Inputs:
    """The inputs of one sequence.

    Attributes:
        kinds: uint8 [positions].
        ids: int32 [positions, NUM_CODEBOOKS].
        speaker: float32 [hidden].
        adapter: the number of its adapter, or -1.
    """

    kinds: np.ndarray
    ids: np.ndarray
    speaker: np.ndarray
    adapter: int = -1

    def __len__(self) -> int:
        return len(self.kinds)

    def embedded(self, embed: Embed) -> Tensor:
        """Return the embeddings, float64 [positions, hidden]."""
        rows = []
        for kind, ids in zip(self.kinds.tolist(), self.ids.tolist(), strict=True):
            if kind == RowKind.VECTOR:
                rows.append(torch.from_numpy(self.speaker).double())
            elif kind == RowKind.TEXT:
                rows.append(embed.text.weight[ids[0]].double())
            else:
                own = [codebook * CODES + code for codebook, code in enumerate(ids)]
                rows.append(embed.code.weight[own].double().sum(dim=0))
        return torch.stack(rows)


def make_inputs(length: int, hidden: int, seed: int) -> Inputs:
    """Make text with the speaker's vector in two places, then codes, then text and codes mixed."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, length).astype(np.uint8)
    kinds[: length // 3] = RowKind.TEXT
    kinds[length // 3 : 2 * length // 3] = RowKind.CODE
    kinds[[min(1, length - 1), length // 4]] = RowKind.VECTOR
    ids = rng.integers(0, [[TEXTS], [CODES], [1]], (3, length)).astype(np.int32)
    wide = rng.integers(0, CODES, (length, NUM_CODEBOOKS)).astype(np.int32)
    wide[:, 0] = ids[kinds, np.arange(length)]
    return Inputs(kinds, wide, rng.standard_normal(hidden).astype(np.float32))


@dataclass
class LlamaDriver:
    """A model whose blocks are dealt out in a scrambled order, over memory full of NaN.

    Attributes:
        hiddens: hidden states of each sequence, one tensor [positions, hidden] for each step.
    """

    llama: LlamaModel
    block_size: int
    sequences: Sequence[Inputs]
    seed: int = 0
    hiddens: list[list[Tensor]] = field(init=False)

    def __post_init__(self) -> None:
        counts = [-(-len(inputs) // self.block_size) for inputs in self.sequences]
        order = np.random.default_rng(self.seed).permutation(sum(counts) + 3).astype(np.int32)
        self.tables = np.split(order, np.cumsum(counts))[:-1]
        self.pool = self.llama.new_pool(len(order))
        self.pool.view(torch.uint8).fill_(0xFF)
        self.hiddens = [[] for _ in self.sequences]

    def step(self, work: Sequence[tuple[int, int]]) -> None:
        """Move sequences forward; ``work`` has (index, number of positions) of each."""
        starts = [sum(len(part) for part in self.hiddens[index]) for index, _ in work]
        own = [
            (self.sequences[index], slice(start, start + count))
            for (index, count), start in zip(work, starts, strict=True)
        ]
        counts = [len(inputs.kinds[part]) for inputs, part in own]
        kinds = np.concatenate([inputs.kinds[part] for inputs, part in own])
        ids = np.concatenate([inputs.ids[part] for inputs, part in own])
        table_of = np.repeat(np.arange(len(work), dtype=np.int32), counts)
        vectors = kinds == RowKind.VECTOR
        ids[vectors, 0] = table_of[vectors]
        width = max(len(self.tables[index]) for index, _ in work)
        tables = np.full((len(work), width), -1, dtype=np.int32)
        for row, (index, _) in enumerate(work):
            tables[row, : len(self.tables[index])] = self.tables[index]
        positions = [np.arange(s, s + n) for s, n in zip(starts, counts, strict=True)]
        batch = InputBatch(
            kinds=kinds,
            ids=ids,
            vectors=np.stack([inputs.speaker for inputs, _ in own]),
            positions=np.concatenate(positions).astype(np.int32),
            tables=tables,
            table_of=table_of,
            draws=np.arange(len(kinds), dtype=np.int32),
            adapter_of=self._adapters(own, counts),
        )
        parts = self.llama.forward(batch, self.pool).split(counts)
        for (index, _), part in zip(work, parts, strict=True):
            self.hiddens[index].append(part)

    def _adapters(
        self, own: Sequence[tuple[Inputs, slice]], counts: Sequence[int]
    ) -> np.ndarray | None:
        adapters = np.array([inputs.adapter for inputs, _ in own], dtype=np.int32)
        return np.repeat(adapters, counts) if adapters.max() >= 0 else None

    def run(self, chunk: int) -> list[Tensor]:
        """Run all sequences to their ends, side by side, ``chunk`` positions at a time."""
        done = 0
        while work := [(i, chunk) for i, s in enumerate(self.sequences) if len(s) > done]:
            self.step(work)
            done += chunk
        return self.results()

    def results(self) -> list[Tensor]:
        return [torch.cat(parts) for parts in self.hiddens]


def packed_weights(
    team: Team, file: LlamaFile, kind: str, shard: Shard | None = None
) -> PackedWeights:
    """Pack or map weights, and wait for the end of the thread that writes their file."""
    weights = packing.packed_weights(team, file, kind, shard)
    wait_for_writers()
    return weights


def wait_for_writers() -> None:
    """Wait for the ends of all threads of this process that write packed weights."""
    for thread in threading.enumerate():
        if thread.name == packed_files.WRITER:
            thread.join()
