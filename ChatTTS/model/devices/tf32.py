"""Float32 products and convolutions with all their bits, whatever the process has set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def ieee_float32() -> Iterator[None]:
    """Compute and record without TF32 in this context.

    The setting is the process's, so other threads see it while the context lasts.
    """
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # it was set by torch's newer names, which the older ones do not know
        matmul = torch.backends.cuda.matmul
        newer = matmul.fp32_precision
        matmul.fp32_precision = "ieee"
        try:
            yield
        finally:
            matmul.fp32_precision = newer
        return
    if before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def ieee_convolutions() -> Iterator[None]:
    """Let cuDNN convolve without TF32 in this context, which it takes by default.

    The setting is the process's, so other threads see it while the context lasts.
    """
    cudnn: Any = torch.backends.cudnn
    try:
        before = cudnn.allow_tf32
    except RuntimeError:  # it was set by torch's newer names, which the older ones do not know
        newer = cudnn.conv.fp32_precision
        cudnn.conv.fp32_precision = "ieee"
        try:
            yield
        finally:
            cudnn.conv.fp32_precision = newer
        return
    cudnn.allow_tf32 = False
    try:
        yield
    finally:
        cudnn.allow_tf32 = before
