"""The Wyoming protocol, by which Home Assistant asks for speech: events in JSON over TCP."""

from .announcement import announced, reachable_addresses
from .server import serve_wyoming

__all__ = ["announced", "reachable_addresses", "serve_wyoming"]
