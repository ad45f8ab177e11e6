"""Skinny products, with what is fused into them, against their reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ChatTTS.errors import ConfigError
from ChatTTS.model.kernels.cuda import products
from ChatTTS.model.kernels.cuda.product_kernels import (
    product_at_once,
    product_by_lanes,
    product_in_tiles,
    product_in_turns,
)
from ChatTTS.model.kernels.cuda.products import (
    KernelConfig,
    choose_config,
    compute,
    product,
    product_torch,
)

from ....support.kernel_tools import DEVICE

EPS = 1e-5
# Results are about 1. Those of 16 bits are rounded up to four times on their way; the interpreter
# cuts bfloat16 off instead of rounding it, which doubles the error.
ERRORS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random).to(DEVICE, dtype)


def weights(outputs: int, inputs: int, dtype: torch.dtype) -> Tensor:
    made: Tensor = (normal(outputs, inputs, seed=1) * inputs**-0.5).to(dtype)
    if DEVICE.type == "cuda":
        # A product reads its weights before the preceding launch has ended.
        torch.cuda.synchronize()
    return made


def assert_near(found: Tensor, expected: Tensor, error: float) -> None:
    torch.testing.assert_close(found.float(), expected.float(), atol=error, rtol=error)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("normed", [False, True])
def test_every_combination_equals_the_twin(
    dtype: torch.dtype, gated: bool, added: bool, normed: bool
) -> None:
    rows, inputs, outputs = 5, 272, 24
    x = normal(rows, inputs, dtype=dtype) * 3
    weight = weights(outputs * (1 + gated), inputs, dtype)
    norm = (1 + 0.1 * normal(inputs, dtype=dtype, seed=2), EPS) if normed else None
    residual = normal(rows, outputs, dtype=dtype, seed=3) if added else None
    expected = product_torch(
        x, weight, norm=norm, residual=None if residual is None else residual.clone(), gated=gated
    )
    before = x.clone()
    found = product(x, weight, norm=norm, residual=residual, gated=gated)
    assert_near(found, expected, ERRORS[dtype] * (1 if normed else 3))
    assert found is residual or not added
    assert torch.equal(x, before)


@pytest.mark.parametrize("rows", [*range(1, 18, 4), 16, 65, 130])
def test_any_number_of_rows(rows: int) -> None:
    x, weight = normal(rows, 64, dtype=torch.float16), weights(40, 64, torch.float16)
    assert_near(product(x, weight), product_torch(x, weight), ERRORS[torch.float16])


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 15, 33, 100])
@pytest.mark.parametrize("inputs", [1, 31, 255, 256, 700])
def test_any_size(inputs: int, outputs: int) -> None:
    x, weight = normal(3, inputs), weights(outputs, inputs, torch.float32)
    gain = normal(inputs, seed=2)
    found = product(x, weight, norm=(gain, EPS))
    assert_near(found, product_torch(x, weight, norm=(gain, EPS)), ERRORS[torch.float32])


def test_no_rows_at_all() -> None:
    assert product(normal(0, 32), weights(48, 32, torch.float32)).shape == (0, 48)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.slow_for("dtype[01]")
def test_a_row_does_not_see_its_neighbours(dtype: torch.dtype) -> None:
    x, weight = normal(19, 300, dtype=dtype), weights(64, 300, dtype)
    norm = (1 + 0.1 * normal(300, dtype=dtype, seed=2), EPS)
    together = product(x, weight, norm=norm, gated=True)
    for row in (0, 6, 15, 16, 18):
        alone = product(x[row : row + 1], weight, norm=norm, gated=True)
        assert torch.equal(alone, together[row : row + 1])
    x[7] = torch.nan
    others = torch.arange(len(x), device=DEVICE) != 7
    found = product(x, weight, norm=norm, gated=True)
    assert torch.equal(found[others], together[others])
    assert found[7].isnan().all()


AT_ONCE = [
    KernelConfig(product_at_once, 16, 16, 4, norms=True),
    KernelConfig(product_at_once, 16, 8, 4, norms=True),
    KernelConfig(product_at_once, 16, 16, 8),
    KernelConfig(product_at_once, 32, 32, 8, norms=True),
]
TURNS = [
    KernelConfig(product_in_turns, rows, outputs, 4, 3)
    for rows, outputs in ((16, 16), (32, 16), (32, 32), (64, 16))
]
TILES = [
    KernelConfig(product_in_tiles, rows, outputs, 4, 4) for rows, outputs in ((64, 32), (32, 64))
]
LANES = [KernelConfig(product_by_lanes, rows, 8, 4) for rows in (4, 8)]
CONFIGS = [
    (torch.bfloat16, [*AT_ONCE, *TURNS, *TILES]),
    (torch.float16, [*AT_ONCE, *TURNS, *TILES]),
    (torch.float32, LANES),
]


def computed(
    config: KernelConfig, x: Tensor, weight: Tensor, gain: Tensor, *, gated: bool
) -> Tensor:
    """Compute the gated or the added product of ``x`` after its norm, with one launch config."""
    out = normal(len(x), len(weight) // (1 + gated), dtype=x.dtype, seed=3)
    compute(config, x, weight, out, norm=(gain, EPS), gated=gated, added=not gated)
    return out


@pytest.mark.parametrize(("dtype", "configs"), CONFIGS)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.slow_for("*-configs[01]", "True-*")
def test_every_config_equals_the_twin(
    dtype: torch.dtype, configs: list[KernelConfig], gated: bool
) -> None:
    rows, inputs, outputs = 37, 300, 40
    x, weight = normal(rows, inputs, dtype=dtype), weights(outputs * (1 + gated), inputs, dtype)
    gain = 1 + 0.1 * normal(inputs, dtype=dtype, seed=2)
    residual = None if gated else normal(rows, outputs, dtype=dtype, seed=3)
    expected = product_torch(x, weight, norm=(gain, EPS), residual=residual, gated=gated)
    for config in configs:
        assert_near(computed(config, x, weight, gain, gated=gated), expected, ERRORS[dtype])


@pytest.mark.skipif(
    DEVICE.type == "cpu", reason="NumPy sums tiles of other shapes in another order"
)
@pytest.mark.parametrize(("dtype", "configs"), CONFIGS)
@pytest.mark.parametrize("gated", [False, True])
def test_every_config_gives_the_same_bits(
    dtype: torch.dtype, configs: list[KernelConfig], gated: bool
) -> None:
    rows, inputs, outputs = 500, 300, 40
    x, weight = normal(rows, inputs, dtype=dtype), weights(outputs * (1 + gated), inputs, dtype)
    # Far apart, so that the order of sums shows.
    x *= 2.0 ** torch.randint(-3, 4, x.shape, generator=torch.Generator().manual_seed(4)).to(x)
    gain = 1 + 0.1 * normal(inputs, dtype=dtype, seed=2)
    first, *others = (computed(config, x, weight, gain, gated=gated) for config in configs)
    for found in others:
        assert torch.equal(found, first)


def test_a_way_for_every_number_of_rows() -> None:
    """More rows and more outputs take larger tiles; rows beyond the largest tile run in turns."""

    def kernels(outputs: int, inputs: int, dtype: torch.dtype, *, normed: bool) -> list[str]:
        weight = torch.empty(outputs, inputs, dtype=dtype, device=DEVICE)
        configs = (
            choose_config(weight, rows, dtype, normed=normed, gated=False) for rows in (1, 40, 200)
        )
        return [config.kernel.fn.__name__.removeprefix("product_") for config in configs]

    half = torch.float16
    assert kernels(2304, 512, half, normed=True) == ["at_once", "in_turns", "in_tiles"]
    assert kernels(96, 512, half, normed=True) == ["at_once", "in_turns", "in_turns"]
    assert set(kernels(96, 9000, half, normed=True)) == {"in_turns"}
    assert set(kernels(96, 9000, half, normed=False)) == {"in_turns"}
    assert set(kernels(2304, 512, torch.float32, normed=True)) == {"by_lanes"}


@pytest.mark.parametrize(
    ("compute_capability", "dtype", "tile"),
    [
        (90, torch.float16, (64, 32)),
        (90, torch.int8, (32, 64)),
        (100, torch.float16, (32, 64)),
        (120, torch.bfloat16, (32, 64)),
    ],
)
def test_tiles_are_tall_where_four_warps_multiply_them(
    monkeypatch: pytest.MonkeyPatch,
    compute_capability: int,
    dtype: torch.dtype,
    tile: tuple[int, int],
) -> None:
    monkeypatch.setattr(products, "capability", lambda weight: compute_capability)
    weight = torch.empty(2304, 512, dtype=dtype, device=DEVICE)
    config = choose_config(weight, 200, torch.float16, normed=True, gated=False)
    assert config == KernelConfig(product_in_tiles, *tile, 4, 4)


@pytest.mark.parametrize(
    ("compute_capability", "normed", "at_once"),
    [(80, True, True), (80, False, False), (90, False, True)],
)
def test_rows_that_are_not_normed_are_held_whole(
    monkeypatch: pytest.MonkeyPatch, compute_capability: int, normed: bool, at_once: bool
) -> None:
    """Where there is no room for them, the product is computed in turns."""
    monkeypatch.setattr(products, "capability", lambda weight: compute_capability)
    weight = torch.empty(96, 1024 if normed else 2048, dtype=torch.float16, device=DEVICE)
    config = choose_config(weight, 16, torch.float16, normed=normed, gated=False)
    assert (config.kernel is product_at_once) == at_once


def test_logits_in_single_precision() -> None:
    x, weight = normal(4, 96, dtype=torch.float16), weights(30, 96, torch.float16)
    found = product(x, weight, out_dtype=torch.float32)
    assert found.dtype == torch.float32
    # Nothing is rounded to half precision: the error is far below half precision's.
    assert_near(found, product_torch(x, weight, out_dtype=torch.float32), 1e-5)


def test_a_residual_has_its_own_dtype() -> None:
    x, weight = normal(2, 32, dtype=torch.float16), weights(16, 32, torch.float16)
    residual = normal(2, 16, seed=3)
    expected = residual + product_torch(x, weight, out_dtype=torch.float32)
    assert_near(product(x, weight, residual=residual), expected, 1e-5)
    with pytest.raises(ConfigError, match="out_dtype"):
        product(x, weight, residual=residual, out_dtype=torch.float32)
