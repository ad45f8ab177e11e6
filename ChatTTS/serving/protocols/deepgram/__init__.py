"""Deepgram's speech API: its clients find this server by a base URL.

``POST /v1/speak``, and a WebSocket at the same address. The query has ``model`` (a voice),
``encoding``, ``container``, ``sample_rate``, ``bit_rate``, ``speed`` and ``seed``. The key is in
``Authorization: Token KEY``, or for browsers in ``Sec-WebSocket-Protocol: token, KEY``.

On the socket the client sends ``Speak`` (``text``), ``Flush``, ``Clear`` and ``Close``. The server
sends ``Metadata`` first, the sound in binary frames, and ``Flushed``, ``Cleared`` and ``Warning``.
"""

from .routes import add_to

__all__ = ["add_to"]
