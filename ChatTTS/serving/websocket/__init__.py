"""WebSocket: text in pieces, spoken while it comes, on ``/v1/audio/speech/stream``.

All messages are JSON objects with a ``type``. Each may carry a ``context_id``, which every answer
repeats: contexts speak side by side. Without one it is the default context.

The client says:

- ``session.auth``: ``api_key``; the first message, where the key is not in the header
  ``Authorization`` or in the query (``?api_key=``).
- ``session.config``: how to speak, by the fields of :class:`.config.ContextConfig`. Those of the
  default context hold for contexts that begin later. They apply from the next run on.
- ``input.text``: ``text``, which is appended. Utterances are spoken as they become complete.
- ``input.flush``: what is here is complete.
- ``input.cancel``: be silent, and forget all text of the context. ``played_samples`` says how much
  was heard.
- ``input.done``: as a flush, and the context ends.
- ``session.close``: as ``input.done`` in all contexts; then the socket is closed.

A run is what is spoken until a flush. The server says:

- ``audio.start``: ``sample_rate``, ``format``, ``seed``, ``request_id``, before a run's sound.
- ``text.spoken``: ``utterance``, ``text`` and ``position`` (in samples) where an utterance begins.
- the sound, as binary frames; each follows an ``audio.chunk`` (``bytes``, ``position``) where a
  context other than the default one is in use, or ``framing`` is set. With ``audio: "base64"`` it
  comes in ``audio.delta`` (``audio``, ``position``) instead.
- ``audio.done``: ``total_bytes``, ``total_samples``, ``text``, ``finish_reason`` (``stop``,
  ``length``, ``abort``, ``error``), for every flush.
- ``audio.cancelled``: ``sent_samples``, ``spoken_text``, ``is_exact``; nothing of what was
  cancelled comes after it. The text is that of the samples that were sent, or played; where they
  end within an utterance, the last words are estimated (see :class:`.heard.Timeline`).
- ``session.done``: the context is over.
- ``error``: ``error`` with ``message``, ``type``, ``param``, ``code`` and maybe ``retry_after``.
  The socket goes on; an utterance that cannot be spoken is left out, and so is the rest of a run
  for which there is no room.

Closing codes: 1000 all was said, 1009 too large a message, 1012 the server ended, 1013 no place,
4401 no key, 4408 idle.
"""

from .route import PATH, add_to

__all__ = ["PATH", "add_to"]
