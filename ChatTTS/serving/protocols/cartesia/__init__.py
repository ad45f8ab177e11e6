"""Cartesia's API: its clients find this server by a base URL.

- ``POST /tts/bytes`` and ``POST /tts/sse``: speech, and speech with word times as events.
- WebSocket ``/tts/websocket``: requests with ``context_id`` and ``continue`` for text that is still
  being written, ``flush``, and ``cancel``.
- ``GET /voices`` and ``/voices/{id}``.

The key is in ``X-API-Key`` or ``Authorization``, and for browsers in the query (``api_key``,
``access_token``).
"""

from .routes import add_to

__all__ = ["add_to"]
