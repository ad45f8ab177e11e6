"""Products and convolutions with all bits: settings of the process that threads share."""

from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from ChatTTS.model.devices.tf32 import ieee_convolutions, ieee_float32
from ChatTTS.model.dvae import DVAE


def test_precision_of_convolutions_is_lent() -> None:
    cudnn = torch.backends.cudnn
    before = cudnn.allow_tf32
    cudnn.allow_tf32 = True
    try:
        with ieee_convolutions():
            assert not cudnn.allow_tf32
        assert cudnn.allow_tf32
    finally:
        cudnn.allow_tf32 = before


def test_sound_is_encoded_with_all_bits() -> None:
    seen: list[bool] = []

    def noted(samples: Tensor) -> Tensor:
        seen.append(torch.backends.cudnn.allow_tf32)
        return samples

    def same(values: Tensor) -> Tensor:
        return values

    layers: Any = SimpleNamespace(
        preprocessor_mel=noted, coef=1.0, downsample_conv=same, encoder=same, vq_layer=same
    )
    DVAE.encode(layers, torch.zeros(1, 4))
    assert seen == [False]


def test_precision_is_lent() -> None:
    for before in ("high", "highest", "medium"):
        torch.set_float32_matmul_precision(before)
        try:
            with ieee_float32():
                assert torch.get_float32_matmul_precision() == "highest"
            assert torch.get_float32_matmul_precision() == before
        finally:
            torch.set_float32_matmul_precision("highest")


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="an older torch"
)
def test_precision_of_the_newer_names_is_lent() -> None:
    matmul = torch.backends.cuda.matmul
    before, matmul.fp32_precision = matmul.fp32_precision, "tf32"
    try:
        with ieee_float32():
            assert matmul.fp32_precision == "ieee"
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


def test_overlapping_contexts_share_the_setting() -> None:
    """As those of two threads: the first to end must not take the bits from the other."""
    torch.set_float32_matmul_precision("high")
    try:
        first: AbstractContextManager[None] = ieee_float32()
        second: AbstractContextManager[None] = ieee_float32()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_float32_matmul_precision() == "highest"
        second.__exit__(None, None, None)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_an_inner_context_does_not_rely_on_the_outer_one() -> None:
    """Another thread may have set its own precision since."""
    try:
        with ieee_float32():
            torch.set_float32_matmul_precision("high")
            with ieee_float32():
                assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision("highest")
