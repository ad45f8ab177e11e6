"""The kernels of the audio decoder: dense layers, and the beginning of a ConvNeXt block."""

from __future__ import annotations

# Before anything that imports Triton, whose own functions read its setting as they are declared.
from ....support.kernel_tools import DEVICE  # isort: skip

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ChatTTS.model.kernels.cuda.dense import dense
from ChatTTS.model.kernels.cuda.depthwise import depthwise_norm
from ChatTTS.model.kernels.torch_references import (
    ChannelNorm,
    Residual,
    dense_torch,
    depthwise_norm_torch,
)

# Results are about 1. Those of 16 bits are rounded up to three times on their way; the interpreter
# cuts bfloat16 off instead of rounding it, which doubles the error.
ERRORS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 4e-2}


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=random).to(DEVICE, dtype)


def assert_near(found: Tensor, expected: Tensor, error: float) -> None:
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, atol=error, rtol=error)


def residual(window: Tensor, outputs: int) -> Residual:
    """Return what lies within a window [B, T + 3, outputs], of which some rows do not count."""
    whole = (normal(*window.shape[:2], 1, seed=8) > -0.5).float()
    return Residual(window[:, 2:-1], normal(outputs, seed=7), whole[:, 2:-1])


@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_a_dense_layer(dtype: torch.dtype, gelu: bool, added: bool, biased: bool) -> None:
    x, weight = normal(2, 5, 150, dtype=dtype), normal(37, 150, dtype=dtype, seed=1) * 150**-0.5
    bias = normal(37, dtype=dtype, seed=2) if biased else None
    sums = residual(normal(2, 8, 37, seed=3), 37) if added else None
    before = x.clone()
    found = dense(x, weight, bias, gelu=gelu, added=sums)
    assert_near(found, dense_torch(x, weight, bias, gelu=gelu, added=sums), ERRORS[dtype])
    assert torch.equal(x, before)


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (16, 32), (65, 64), (130, 5)])
@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (3, 43), (2, 32), (0, 4)])
def test_a_dense_layer_of_any_size(batch: int, steps: int, inputs: int, outputs: int) -> None:
    x, weight = normal(batch, steps, inputs), normal(outputs, inputs, seed=1) * inputs**-0.5
    sums = residual(normal(batch, steps + 3, outputs, seed=3), outputs)
    assert_near(dense(x, weight, added=sums), dense_torch(x, weight, added=sums), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize("added", [False, True])
def test_a_row_of_a_dense_layer_sees_no_other(dtype: torch.dtype, added: bool) -> None:
    """Its place in the tile, and the other rows, change none of its bits."""
    x, weight = normal(5, 14, 70, dtype=dtype), normal(33, 70, dtype=dtype, seed=1) * 0.1
    sums = residual(normal(5, 17, 33, seed=3), 33) if added else None

    def some(batches: slice, steps: slice) -> Tensor:
        own = None
        if sums is not None:
            own = replace(sums, rows=sums.rows[batches, steps], there=sums.there[batches, steps])
        return dense(x[batches, steps].contiguous(), weight, gelu=True, added=own)

    whole = some(slice(None), slice(None))
    for batches, steps in (
        (slice(1), slice(1)),
        (slice(3, 4), slice(9, 14)),
        (slice(1, 5), slice(13)),
    ):
        assert torch.equal(some(batches, steps), whole[batches, steps])
    x[2, 7] = torch.nan
    found = some(slice(None), slice(None))
    others = torch.ones(5, 14, dtype=torch.bool, device=DEVICE)
    others[2, 7] = False
    assert torch.equal(found[others], whole[others])


@pytest.mark.parametrize("dtype", ERRORS, ids=str)
@pytest.mark.parametrize(
    ("kernel", "dilation", "channels"), [(7, 1, 48), (3, 2, 19), (7, 2, 130), (1, 1, 1)]
)
def test_the_beginning_of_a_block(
    kernel: int, dilation: int, channels: int, dtype: torch.dtype
) -> None:
    window = normal(3, 9 + (kernel - 1) * dilation, channels)
    taps, bias = normal(kernel, channels, seed=1), normal(channels, seed=2)
    norm = ChannelNorm(normal(channels, seed=3), normal(channels, seed=4), 1e-6)
    given = taps, bias, norm
    found = depthwise_norm(window, *given, dilation=dilation, dtype=dtype)
    expected = depthwise_norm_torch(window, *given, dilation=dilation, dtype=dtype)
    assert found.shape == (3, 9, channels)
    assert_near(found, expected, max(1e-4, ERRORS[dtype]))
    span = (kernel - 1) * dilation + 1
    alone = depthwise_norm(
        window[2:, 4 : 4 + span].contiguous(), *given, dilation=dilation, dtype=dtype
    )
    assert torch.equal(alone[0, 0], found[2, 4])


def test_no_row_of_a_block() -> None:
    norm = ChannelNorm(normal(8), normal(8), 1e-6)
    window, taps = normal(0, 9, 8), normal(7, 8)
    found = depthwise_norm(window, taps, normal(8), norm, dilation=1, dtype=torch.float16)
    assert found.shape == (0, 3, 8)
