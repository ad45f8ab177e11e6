"""The two operations of the decoder's layers that look at many numbers, in torch or as kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ..kernels import torch_references


@dataclass(frozen=True)
class LayerOperations:
    """A table of operations over rows [B, T, channels].

    Attributes:
        dense: see :func:`~ChatTTS.model.kernels.cuda.dense.dense`.
        depthwise_norm: see :func:`~ChatTTS.model.kernels.cuda.depthwise.depthwise_norm`.
        exact: whether no bit of a row depends on how many rows there are, or on their places.
    """

    dense: Callable[..., Tensor]
    depthwise_norm: Callable[..., Tensor]
    exact: bool


TORCH_OPERATIONS = LayerOperations(
    torch_references.dense_torch, torch_references.depthwise_norm_torch, exact=False
)
"""Products are cuBLAS's on a GPU, which chooses another order of sums for another shape."""


def kernel_operations() -> LayerOperations:
    """Return the operations as Triton kernels."""
    # Triton is not everywhere.
    from ..kernels.cuda.dense import dense
    from ..kernels.cuda.depthwise import depthwise_norm

    return LayerOperations(dense, depthwise_norm, exact=True)
