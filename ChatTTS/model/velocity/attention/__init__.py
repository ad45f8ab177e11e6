"""Attention over paged keys and values: one interface, a back end for each kind of device."""

from __future__ import annotations

from .base import Attention
from .torch_backend import TorchAttention

__all__ = ["Attention", "TorchAttention"]
