"""A Llama of several ranks has the bits of one rank: hidden states and attention alike."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch

from ChatTTS.model.llama.config import LlamaShape

from .....support.rank_tools import RankedLlama
from .....support.velocity_models import (
    LlamaDriver,
    make_embed,
    make_inputs,
    make_shape,
    native_llama,
    save_llama,
    torch_llama,
)

SHAPES = {
    "four heads": make_shape(64, 4, 4, 16, layers=3),
    "groups of two, odd sizes": make_shape(33, 8, 4, 10, inner=71, layers=3),
}
# Ranks of a stage, and stages.
SIZES = [(2, 1), (3, 1), (4, 1), (1, 2), (2, 2), (1, 3)]


def sequences(hidden: int) -> list[object]:
    return [make_inputs(length, hidden, seed=length) for length in (40, 23, 9)]


def ranked(make, shape: LlamaShape, ranks: int, stages: int) -> RankedLlama:  # type: ignore[no-untyped-def]
    def of_rank(shard: object, communicator: object) -> object:
        return make(shard=shard, communicator=communicator)

    return RankedLlama(shape, ranks, stages, of_rank)  # type: ignore[arg-type]


def compare(make, shape: LlamaShape, ranks: int, stages: int) -> None:  # type: ignore[no-untyped-def]
    """Prompts in chunks side by side, down to single rows."""
    machines = [
        LlamaDriver(llama, 8, sequences(shape.hidden_size))  # type: ignore[arg-type]
        for llama in (make(), ranked(make, shape, ranks, stages))
    ]
    for alone, shared in zip(*(driver.run(11) for driver in machines), strict=True):
        assert torch.equal(alone, shared)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "stages"), SIZES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8"])
def test_cpu_kernels(tmp_path: Path, shape: LlamaShape, kind: str, ranks: int, stages: int) -> None:
    dtype = torch.float32 if kind == "float32" else torch.bfloat16
    embed = make_embed(shape.hidden_size, dtype)
    file = save_llama(tmp_path, shape)
    compare(partial(native_llama, file, embed, 8, kind), shape, ranks, stages)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "stages"), SIZES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_torch(tmp_path: Path, shape: LlamaShape, ranks: int, stages: int) -> None:
    file = save_llama(tmp_path, shape)
    compare(partial(torch_llama, file, make_embed(shape.hidden_size), 8), shape, ranks, stages)
