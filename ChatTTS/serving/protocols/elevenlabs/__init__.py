"""ElevenLabs' API: its clients find this server by a base URL.

Routes, with the key in the header ``xi-api-key``:

- ``POST /v1/text-to-speech/{voice}``, ``.../stream``, ``.../with-timestamps`` and
  ``.../stream/with-timestamps``.
- WebSocket ``/v1/text-to-speech/{voice}/stream-input`` and ``.../multi-stream-input``.
- ``GET /v1/voices``, ``/v2/voices``, ``/v1/voices/{voice}``, ``/v1/voices/{voice}/settings``,
  ``/v1/voices/settings/default``, ``/v1/models``, ``/v1/user`` and ``/v1/user/subscription``.

``GET /v1/models`` is an address of OpenAI's API, too. It is answered here for clients that send
``xi-api-key``, or name ElevenLabs' SDK in ``x-fern-sdk-name``; OpenAI's send neither.
"""

from .routes import add_to

__all__ = ["add_to"]
