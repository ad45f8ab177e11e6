"""What adapters add to products, against references and without them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda.low_rank import LowRanks, RowRanks, to_ranks, to_ranks_torch
from ChatTTS.model.kernels.cuda.products import KernelConfig, compute, product, product_torch

from ....support.kernel_tools import DEVICE, EMULATED
from .test_products import CONFIGS, EPS, ERRORS, assert_near, normal, weights

# Queries, keys and values; both halves of a gated MLP; a matrix alone. The outputs of the parts.
STACKS = {
    "qkv": (24, 8, 8),
    "whole tiles": (32, 32, 32),
    "gate and up": (40, 40),
    "one": (40,),
}
# Ranks by adapter and part: one adapter of many ranks, one on some parts, one on none.
RANKS = ((11, 5, 3), (0, 2, 1), (0, 0, 0), (1, 4, 9))


# The interpreter takes a minute for these cases, whose bits it does not keep as compilers do.
compiled = pytest.mark.skipif(
    not (EMULATED or torch.cuda.is_available()),
    reason="needs compiled kernels: tests/ptx runs it",
)


def some_adapters(parts: tuple[int, ...], inputs: int) -> LowRanks:
    """All of ``RANKS`` for a matrix that stacks parts of such sizes."""
    counts = torch.tensor([own[: len(parts)] for own in RANKS]).flatten()
    total = int(counts.sum())
    up = normal(total, max(parts), seed=11)
    for i, place in enumerate(counts.cumsum(0).tolist()):
        up[place - int(counts[i]) : place, parts[i % len(parts)] :] = 0
    return LowRanks(
        normal(total, inputs, seed=12) * inputs**-0.5,
        up,
        torch.cat([torch.zeros(1), counts.cumsum(0)]).to(DEVICE, torch.int32),
        len(parts),
        int(counts.max()),
    )


def adapters_of(rows: int) -> Tensor:
    """Adapters by turns, and none."""
    return (torch.arange(rows) % (len(RANKS) + 1) - 1).to(DEVICE, torch.int32)


def is_own(ranks: RowRanks) -> Tensor:
    """Which of the values are defined."""
    low = ranks.low
    counts = low.starts.diff().view(-1, low.stacked, 1)
    counts = counts[ranks.adapter_of.long()] * (ranks.adapter_of >= 0)[:, None, None]
    return (torch.arange(low.most, device=DEVICE) < counts).flatten(1)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("inputs", [33, 300, 2500])
@pytest.mark.slow
def test_ranks_as_the_twin(dtype: torch.dtype, normed: bool, inputs: int) -> None:
    x, low = 3 * normal(7, inputs, dtype=dtype), some_adapters(STACKS["qkv"], inputs)
    norm = (1 + 0.1 * normal(inputs, dtype=dtype, seed=2), EPS) if normed else None
    found = to_ranks(x, low, adapters_of(7), norm=norm)
    expected = to_ranks_torch(x, low, adapters_of(7), norm=norm)
    own = is_own(found)
    assert torch.equal(own, ~expected.values.isnan())
    error = ERRORS[dtype] * (3 if normed else 1e-3 if dtype is torch.bfloat16 else 1)
    assert_near(found.values[own], expected.values[own], max(error, 2e-5))


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.slow_for("whole*-dtype[12]")
def test_products_as_the_twin(dtype: torch.dtype, stack: str) -> None:
    rows, inputs, parts = 9, 272, STACKS[stack]
    x, weight = normal(rows, inputs, dtype=dtype), weights(sum(parts), inputs, dtype)
    low, gated = some_adapters(parts, inputs), len(parts) == 2
    ranks = to_ranks_torch(x, low, adapters_of(rows))
    residual = normal(rows, sum(parts), dtype=dtype, seed=3) if len(parts) == 1 else None
    expected = product_torch(
        x, weight, gated=gated, residual=None if residual is None else residual.clone(), ranks=ranks
    )
    plain = product_torch(
        x, weight, gated=gated, residual=None if residual is None else residual.clone()
    )
    assert (plain - expected)[1].abs().max() > 0.5
    found = product(x, weight, gated=gated, residual=residual, ranks=ranks)
    # What adapters add is larger than 1, too.
    torch.testing.assert_close(found, expected, atol=6 * ERRORS[dtype], rtol=6 * ERRORS[dtype])


@pytest.mark.parametrize(("dtype", "configs"), CONFIGS)
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.slow
@compiled
def test_every_config_keeps_the_bits_of_rows_without(
    dtype: torch.dtype, configs: list[KernelConfig], stack: str
) -> None:
    rows, inputs, parts = 21, 300, STACKS[stack]
    x, weight = normal(rows, inputs, dtype=dtype), weights(sum(parts), inputs, dtype)
    low, gated = some_adapters(parts, inputs), len(parts) == 2
    ranks = to_ranks(x, low, adapters_of(rows))
    expected = product_torch(x, weight, gated=gated, ranks=ranks)
    # The third adapter adds nothing to any matrix.
    without = (ranks.adapter_of < 0) | (ranks.adapter_of == 2)
    first = None
    for config in configs:
        out, plain = torch.empty_like(expected), torch.empty_like(expected)
        norm = (torch.ones_like(x[0]), EPS) if config.norms else None
        given: dict[str, Any] = {"norm": norm, "gated": gated, "added": False}
        compute(config, x, weight, out, **given, ranks=ranks)
        compute(config, x, weight, plain, **given)
        assert torch.equal(out[without], plain[without])
        if config.norms:
            continue
        assert_near(out / 8, expected / 8, ERRORS[dtype])
        first = out if first is None else first
        assert torch.equal(out, first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.slow
@compiled
def test_no_bit_depends_on_the_rows_beside_it(dtype: torch.dtype, stack: str) -> None:
    rows, inputs, parts = 19, 300, STACKS[stack]
    x, weight = normal(rows, inputs, dtype=dtype), weights(sum(parts), inputs, dtype)
    norm = (1 + 0.1 * normal(inputs, dtype=dtype, seed=2), EPS)
    low, own, gated = some_adapters(parts, inputs), adapters_of(rows), len(parts) == 2

    def multiply(x: Tensor, own: Tensor, low: LowRanks = low) -> Tensor:
        ranks = to_ranks(x, low, own, norm=norm)
        return product(x, weight, norm=norm, gated=gated, ranks=ranks)

    together = multiply(x, own)
    for row in (0, 2, 18):
        alone = multiply(x[row : row + 1].clone(), own[row : row + 1].clone())
        assert torch.equal(alone, together[row : row + 1])
    x[1] = torch.nan
    others = torch.arange(rows, device=DEVICE) != 1
    assert torch.equal(multiply(x, own)[others], together[others])
    # Nor on the adapters that are loaded, which other rows have.
    spoilt = low.down.clone()
    spoilt[: int(low.starts[low.stacked])] = torch.inf
    found = multiply(x, own, replace(low, down=spoilt))
    assert torch.equal(found[own != 0], multiply(x, own)[own != 0])
