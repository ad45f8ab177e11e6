"""The engine's Llamas with adapters, against a slow one whose weights have them merged in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from ChatTTS.model.llama.config import LlamaShape
from ChatTTS.model.llama.weights import LlamaFile
from ChatTTS.model.lora.adapter import Adapter
from ChatTTS.model.velocity.loaded_model import LlamaModel

from ...support.adapter_tools import make_adapter, merged_tensors
from ...support.velocity_models import (
    Inputs,
    LlamaDriver,
    make_embed,
    make_inputs,
    make_shape,
    make_tensors,
    native_llama,
    recompute,
    save_llama,
    torch_llama,
)
from .backends.torch.test_llama import EIGHT_BITS, HALF, SINGLE, error_of, mixed_steps

SHAPES = {
    "heads of 16": make_shape(64, 4, 4, 16),
    "heads of 24, two groups": make_shape(96, 4, 2, 24),
    "odd sizes": make_shape(33, 3, 3, 10, inner=71, rms_norm_eps=1e-4),
}
MAKERS: dict[str, Callable[..., LlamaModel]] = {"native": native_llama, "torch": torch_llama}


@pytest.fixture(params=list(SHAPES.values()), ids=list(SHAPES))
def shape(request: pytest.FixtureRequest) -> LlamaShape:
    found: LlamaShape = request.param
    return found


@pytest.fixture
def file(tmp_path: Path, shape: LlamaShape) -> LlamaFile:
    return save_llama(tmp_path, shape)


def two_adapters(folder: Path, shape: LlamaShape) -> list[Adapter]:
    """One on all projections, of a rank that no vector divides, and a small one on some."""
    return [
        make_adapter(folder, shape, "wide", seed=1, rank=11),
        make_adapter(folder, shape, "narrow", seed=2, rank=2, targets={"k_proj", "up_proj"}),
    ]


def sequences(hidden: int) -> list[Inputs]:
    """The first with an adapter, the second without, the third with the other one."""
    lengths = {70: 0, 40: -1, 37: 1}
    return [replace(make_inputs(n, hidden, seed=n), adapter=own) for n, own in lengths.items()]


def expected_of(driver: LlamaDriver, shape: LlamaShape, adapters: list[Adapter]) -> list[Tensor]:
    embed, plain = make_embed(shape.hidden_size), make_tensors(shape)
    return [
        recompute(
            plain if own.adapter < 0 else merged_tensors(plain, adapters[own.adapter]),
            shape,
            own.embedded(embed),
        )
        for own in driver.sequences
    ]


@pytest.mark.parametrize("name", MAKERS)
def test_as_recomputed_with_merged_weights(
    tmp_path: Path, name: str, shape: LlamaShape, file: LlamaFile
) -> None:
    adapters = two_adapters(tmp_path, shape)
    llama = MAKERS[name](file, make_embed(shape.hidden_size), 32, adapters=adapters)
    driver = LlamaDriver(llama, 32, sequences(shape.hidden_size))
    for found, expected in zip(
        mixed_steps(driver), expected_of(driver, shape, adapters), strict=True
    ):
        assert (found - expected[: len(found)]).abs().max() < 2 * SINGLE


@pytest.mark.parametrize("name", MAKERS)
def test_no_bit_depends_on_the_adapters_beside_it(
    tmp_path: Path, name: str, shape: LlamaShape, file: LlamaFile
) -> None:
    embed = make_embed(shape.hidden_size)
    llama = MAKERS[name](file, embed, 32, adapters=two_adapters(tmp_path, shape))
    together = mixed_steps(LlamaDriver(llama, 32, sequences(shape.hidden_size)))
    for own, found in zip(sequences(shape.hidden_size), together, strict=True):
        alone = LlamaDriver(llama, 32, [own], seed=5)
        assert torch.equal(alone.run(7)[0][: len(found)], found)
    without = LlamaDriver(MAKERS[name](file, embed, 32), 32, [sequences(shape.hidden_size)[1]])
    assert torch.equal(without.run(7)[0][: len(together[1])], together[1])


@pytest.mark.parametrize(("kind", "error"), [("bfloat16", HALF), ("int8", EIGHT_BITS)])
def test_on_smaller_weights(
    tmp_path: Path, shape: LlamaShape, file: LlamaFile, kind: str, error: float
) -> None:
    """The kernels add what adapters add in single precision, to bits that no other row changes."""
    adapters = two_adapters(tmp_path, shape)
    llama = native_llama(file, make_embed(shape.hidden_size), 32, kind, adapters=adapters)
    driver = LlamaDriver(llama, 32, sequences(shape.hidden_size))
    together = mixed_steps(driver)
    for own, found, expected in zip(
        driver.sequences, together, expected_of(driver, shape, adapters), strict=True
    ):
        assert error_of(found, expected[: len(found)]) < error
        alone = LlamaDriver(llama, 32, [own], seed=5)
        assert torch.equal(alone.run(7)[0][: len(found)], found)


@pytest.mark.parametrize("threads", [1, 3])
def test_no_bit_depends_on_the_threads(tmp_path: Path, threads: int) -> None:
    """Few rows share the ranks of an adapter among the threads."""
    shape = SHAPES["odd sizes"]
    file, adapters = save_llama(tmp_path, shape), two_adapters(tmp_path, shape)
    found = [
        LlamaDriver(
            native_llama(file, make_embed(33), 32, threads=n, adapters=adapters),
            32,
            sequences(33)[:1],
        ).run(1)[0]
        for n in (2, threads)
    ]
    assert torch.equal(*found)
