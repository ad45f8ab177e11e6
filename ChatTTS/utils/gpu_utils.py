"""``select_device`` at its place in older versions."""

from __future__ import annotations

from .gpu import select_device

__all__ = ["select_device"]
