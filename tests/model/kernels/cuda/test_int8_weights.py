"""Products with weights in eight bits, against their reference and against one another."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda.attention import SPLIT, ContextSplits
from ChatTTS.model.kernels.cuda.low_rank import to_ranks
from ChatTTS.model.kernels.cuda.output_product import (
    product_of_splits,
    product_of_splits_torch,
)
from ChatTTS.model.kernels.cuda.product_kernels import product_in_tiles
from ChatTTS.model.kernels.cuda.products import (
    KernelConfig,
    choose_config,
    compute,
    product,
    product_torch,
)
from ChatTTS.model.kernels.int8 import quantize_weights

from ....support.kernel_tools import DEVICE
from .test_low_rank import adapters_of, compiled, some_adapters
from .test_products import CONFIGS, EPS, ERRORS, assert_near, normal

# On GPUs of 9.0 it takes the inputs of these weights in another order.
UNUSED = [KernelConfig(product_in_tiles, 64, 32, 4, 4)]


def weights(outputs: int, inputs: int) -> tuple[Tensor, Tensor]:
    """Return whole numbers and scales; outputs are of different sizes."""
    sizes = (inputs**-0.5 * (0.5 + torch.arange(outputs) % 3)).to(DEVICE)
    made = quantize_weights(normal(outputs, inputs, seed=1) * sizes.unsqueeze(1))
    if DEVICE.type == "cuda":
        # A product reads its weights before the preceding launch has ended.
        torch.cuda.synchronize()
    return made


@pytest.mark.smoke
def test_the_largest_weight_of_an_output_is_127() -> None:
    given = torch.tensor([[1.0, -0.25, 2.0], [0.0, 0.0, 0.0], [1e-44, 0.0, 0.0], [3e38, -3e38, 0]])
    numbers, scales = quantize_weights(given)
    assert numbers.dtype is torch.int8
    assert numbers[0].tolist() == [64, -16, 127]  # 63.5 goes to the even one
    assert scales[0] == torch.tensor(2.0) / 127
    assert numbers[1:].tolist() == [[0, 0, 0], [0, 0, 0], [127, -127, 0]]
    assert scales.min() > 0


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize(("gated", "added"), [(False, True), (True, False)])
@pytest.mark.parametrize("normed", [False, True])
def test_products_equal_the_twin(
    dtype: torch.dtype, gated: bool, added: bool, normed: bool
) -> None:
    rows, inputs, outputs = 5, 272, 24
    x = normal(rows, inputs, dtype=dtype)
    numbers, scales = weights(outputs * (1 + gated), inputs)
    norm = (1 + 0.1 * normal(inputs, dtype=dtype, seed=2), EPS) if normed else None
    residual = normal(rows, outputs, dtype=dtype, seed=3) if added else None
    how: dict[str, Any] = {"norm": norm, "gated": gated, "scales": scales}
    expected = product_torch(
        x, numbers, residual=None if residual is None else residual.clone(), **how
    )
    found = product(x, numbers, residual=residual, **how)
    assert_near(found / 4, expected / 4, ERRORS[dtype])


def test_scales_multiply_before_anything_else() -> None:
    """The reference says the same as the product with weights that are widened first."""
    x, (numbers, scales) = normal(4, 96), weights(40, 96)
    wide = numbers.float() * scales.unsqueeze(1)
    for gated in (False, True):
        found = product_torch(x, numbers, gated=gated, scales=scales)
        assert_near(found, product_torch(x, wide, gated=gated), 1e-5)


@pytest.mark.parametrize(("dtype", "configs"), CONFIGS)
@pytest.mark.parametrize("gated", [False, True])
@compiled
@pytest.mark.slow
def test_every_config_gives_the_same_bits(
    dtype: torch.dtype, configs: list[Any], gated: bool
) -> None:
    """With adapters and without; rows without an adapter have the same bits in both.

    The results are in float32, since sums in other orders are often rounded to the same 16 bits.
    """
    rows, inputs, outputs = 70, 300, 40
    x, (numbers, scales) = normal(rows, inputs, dtype=dtype), weights(outputs * (1 + gated), inputs)
    # Far apart, so that the order of sums shows.
    x *= 2.0 ** torch.randint(-3, 4, x.shape, generator=torch.Generator().manual_seed(4)).to(x)
    norm = (1 + 0.1 * normal(inputs, dtype=dtype, seed=2), EPS)
    low, own = some_adapters((outputs,) * (1 + gated), inputs), adapters_of(rows)
    results = []
    for ranks in (None, to_ranks(x, low, own, norm=norm)):
        given: dict[str, Any] = {"norm": norm, "gated": gated, "added": not gated}
        found = []
        for config in (config for config in configs if config not in UNUSED):
            out = normal(rows, outputs, seed=3)
            compute(config, x, numbers, out, **given, ranks=ranks, scales=scales)
            found.append(out)
        for other in found[1:]:
            assert torch.equal(other, found[0])
        results.append(found[0])
    plain, adapted = results
    assert torch.equal(plain[own < 0], adapted[own < 0])
    assert not torch.equal(plain[own >= 0], adapted[own >= 0])


def test_no_number_of_rows_takes_an_unused_config() -> None:
    numbers, _ = weights(2304, 512)
    for dtype in (torch.bfloat16, torch.float32):
        for normed in (False, True):
            given: dict[str, Any] = {"normed": normed, "gated": False}
            chosen = [choose_config(numbers, rows, dtype, **given) for rows in range(1, 500, 7)]
            assert not any(config in UNUSED for config in chosen)
            assert len(set(chosen)) > 1
            wide = [config.kernel.fn.__name__ == "product_by_lanes" for config in chosen]
            assert all(wide) if dtype == torch.float32 else not any(wide)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ERRORS)
def test_a_row_does_not_see_its_neighbours(dtype: torch.dtype) -> None:
    x, (numbers, scales) = normal(19, 300, dtype=dtype), weights(64, 300)
    together = product(x, numbers, gated=True, scales=scales)
    for row in (0, 16, 18):
        alone = product(x[row : row + 1], numbers, gated=True, scales=scales)
        assert torch.equal(alone, together[row : row + 1])


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("rows", [3, 20])
@pytest.mark.slow_for("20-*")
def test_splits_are_merged_as_by_themselves(dtype: torch.dtype, rows: int) -> None:
    heads, size, splits = 2, 64, 2
    numbers, scales = weights(40, heads * size)
    sums, stats = normal(rows, heads, splits, size), normal(rows, heads, splits, 2, seed=5)
    stats[..., 1] = stats[..., 1].abs() + 1
    table_of = torch.zeros(rows, dtype=torch.int32, device=DEVICE)
    positions = torch.arange(rows, dtype=torch.int32, device=DEVICE) * SPLIT % (2 * SPLIT)
    context = ContextSplits(sums, stats, table_of, positions)
    residual = normal(rows, 40, dtype=dtype, seed=3)
    merged = context.merged(dtype).flatten(1)
    expected = product(merged, numbers, residual=residual.clone(), scales=scales)
    found = product_of_splits(context, numbers, residual.clone(), scales)
    assert torch.equal(found, expected)
    reference = product_of_splits_torch(context, numbers, residual.clone(), scales)
    assert_near(found, reference, 2 * ERRORS[dtype])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@compiled
def test_merged_splits_are_summed_in_the_same_order(dtype: torch.dtype) -> None:
    """Inputs cancel one another, so that little but the errors of the sums remains."""
    rows, heads, size = 5, 4, 64
    numbers, scales = weights(40, heads * size)
    sums = normal(rows, heads, 1, size)
    sums *= 2.0 ** torch.randint(-6, 7, sums.shape, generator=torch.Generator().manual_seed(4)).to(
        sums
    )
    sums[..., size // 2 :] = -sums[..., : size // 2]
    halves = numbers.view(40, heads, 2, size // 2)
    halves[:, :, 1] = halves[:, :, 0]
    table_of, positions = torch.zeros(2, rows, dtype=torch.int32, device=DEVICE)
    context = ContextSplits(sums, torch.ones(rows, heads, 1, 2, device=DEVICE), table_of, positions)
    none = torch.zeros(rows, 40, dtype=dtype, device=DEVICE)
    scales = torch.full_like(scales, 2.0**12)
    merged = context.merged(dtype).flatten(1)
    expected = product(merged, numbers, residual=none.clone(), scales=scales)
    found = product_of_splits(context, numbers, none.clone(), scales)
    assert expected.count_nonzero() > 50
    assert torch.equal(found, expected)
