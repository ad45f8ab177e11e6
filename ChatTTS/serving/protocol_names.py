"""The protocols of other vendors, found by reading the folders of ``protocols/``."""

from __future__ import annotations

from pathlib import Path
from pkgutil import iter_modules

_OWN_INTERFACES = frozenset({"mcp", "rest", "riva", "websocket", "wyoming"})
PROTOCOLS = tuple(
    folder.name
    for folder in iter_modules([str(Path(__file__).parent / "protocols")])
    if folder.ispkg and folder.name not in _OWN_INTERFACES
)
"""Protocols of other vendors that the server speaks besides its own interfaces.

A protocol is a folder of ``protocols/``, whose package has ``add_to(app, service, authenticator,
settings)``. Adding the folder adds it.
"""
