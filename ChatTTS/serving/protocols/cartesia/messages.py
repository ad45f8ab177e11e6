"""The messages of a context, which are the events of an answer, too."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ....pipeline.results import Word
from ...encoding.base64_blocks import to_base64
from ...errors import ServingError
from .bodies import as_floats
from .errors import error_fields
from .words import MarkedWords


class Messages:
    """Makes messages.

    Args:
        context_id: goes into every message; ``None`` where there is none.
        is_float: whether samples are sent as 32-bit floats.
    """

    def __init__(self, context_id: str | None, *, is_float: bool) -> None:
        self._context = {} if context_id is None else {"context_id": context_id}
        self._is_float = is_float
        self._words, self._offset = MarkedWords(1.0), 0.0
        self._since = time.monotonic()

    def begin(self, speed: float, offset: float = 0.0) -> None:
        """Begin to count characters from 0.

        Args:
            speed: tempo of the sound that follows.
            offset: seconds of the context's sound before it.
        """
        self._words, self._offset = MarkedWords(speed), offset

    def append(self, text: str) -> None:
        """Add text that the next words belong to."""
        self._words.append(text)

    def timestamps(self, words: Iterable[Word]) -> dict[str, Any]:
        """Return the message of words with their times."""
        told = self._words.timestamps(words, self._offset)
        return self.of("timestamps", status_code=206, word_timestamps=told)

    def chunk(self, data: bytes) -> dict[str, Any]:
        """Return the message of sound, in base64."""
        now = time.monotonic()
        step, self._since = (now - self._since) * 1000, now
        sound = to_base64(as_floats(data) if self._is_float else data)
        return self.of("chunk", status_code=206, data=sound, step_time=round(step, 3))

    def done(self) -> dict[str, Any]:
        """Return the last message."""
        return self.of("done", done=True, status_code=200)

    def error(self, error: ServingError, **fields: Any) -> dict[str, Any]:
        """Return the message of an error, which is the last one."""
        return self.of("error", done=True, **fields, **error_fields(error))

    def of(self, kind: str, *, done: bool = False, **fields: Any) -> dict[str, Any]:
        """Return a message of any kind."""
        return {"type": kind, **self._context, "done": done, **fields}
