"""``select_device`` where older versions have it."""

from __future__ import annotations

from .gpu import select_device

__all__ = ["select_device"]
