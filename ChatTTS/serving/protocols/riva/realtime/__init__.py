"""Riva's realtime API: a WebSocket for text in parts, with sessions over HTTP."""

from .routes import add_to

__all__ = ["add_to"]
