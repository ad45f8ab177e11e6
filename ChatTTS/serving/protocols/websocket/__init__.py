"""WebSocket: text in pieces, spoken while it comes, on ``/v1/audio/speech/stream``.

All messages are JSON objects with a ``type``. Each may carry a ``context_id``, which the server's
messages for it repeat. Contexts speak concurrently. A message without the field belongs to the
default context.

The client sends:

- ``session.auth``: ``api_key``. It must be the first message if the key is neither in the header
  ``Authorization`` nor in the query (``?api_key=``).
- ``session.config``: the fields of :class:`.config.ContextConfig`. They apply from the context's
  next run on. Those of the default context are also the initial settings of later contexts.
- ``input.text``: ``text``, which is appended. Each utterance is spoken once it is complete.
- ``input.flush``: speaks all text that has come, complete or not.
- ``input.cancel``: stops the context's speech and drops its text. ``played_samples`` is the number
  of samples that the client has played.
- ``input.done``: flushes and ends the context.
- ``session.close``: does the work of ``input.done`` in all contexts, then closes the socket.

A run is the speech up to a flush. The server sends:

- ``audio.start``: ``sample_rate``, ``format``, ``seed``, ``request_id``, before a run's sound.
- ``text.spoken``: ``utterance``, ``text`` and ``position`` (in samples) where an utterance begins.
  Where a lexicon replaced words of it, also ``lexicon``: for each place ``text``, ``saying``,
  ``start_character`` and ``end_character`` in the run's text. Where the voice cannot speak parts
  of it, also ``left_out``, a list of letters and words.
- ``text.words`` with ``word_times``: ``words``, each with ``word``, ``start`` and ``end`` in
  seconds of the run, ``start_character`` and ``end_character`` in its text, and ``confidence``. It
  comes before the sound that the words begin in, or as soon as they are final.
- ``text.faults`` with a ``guard``: ``faults``, each with ``kind``, ``text``, ``words`` (how many),
  ``start`` and ``end`` in seconds of the run, ``start_character`` and ``end_character`` in its
  text. It comes as soon as the faults of an utterance are known.
- The sound, as binary frames. An ``audio.chunk`` (``bytes``, ``position``) precedes each of them
  once a named context is in use, or if ``framing`` is set. With ``audio: "base64"`` the sound is
  sent in ``audio.delta`` messages (``audio``, ``position``) instead.
- ``audio.done``: ``total_bytes``, ``total_samples``, ``text``, ``finish_reason`` (``stop``,
  ``length``, ``abort``, ``error``), for every flush.
- ``audio.cancelled``: ``sent_samples``, ``spoken_text``, ``is_exact``. No cancelled sound follows
  it. The text is that of the samples that were sent, or of ``played_samples``. If they end within
  an utterance, its last words are estimated (see :class:`...live.timeline.Timeline`), or known with
  ``word_times``; then ``last_word`` is the last word that was played to its end, or ``null``.
- ``session.done``: the context has ended.
- ``error``: ``error`` with ``message``, ``type``, ``param``, ``code`` and sometimes
  ``retry_after``. The socket stays open. An utterance that cannot be spoken is skipped. After an
  overload the rest of the run is skipped, too.

Closing codes: 1000 all was spoken, 1009 message too large, 1012 the server shut down, 1013 too many
sockets, 4401 no valid key, 4408 idle.
"""

from .routes import PATH, add_to

__all__ = ["PATH", "add_to"]
