"""Logging of the server process: all lines as text or as JSON on stderr, at a limited rate."""

from __future__ import annotations

import json
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from ...utils.locks import new_lock

PACKAGE = "ChatTTS"
# The lines of requests are always logged; the admission limits their number.
_UNLIMITED = ("ChatTTS.serving.requests",)
_BURST, _PER_SECOND = 50, 2.0
_MAX_KINDS = 1000


class RateLimitFilter(logging.Filter):
    """Limits the rate of log records of each kind by a token bucket.

    Records are of one kind if they have the same logger and the same message format, or the same
    code of a refusal. The next record that passes says how many were left out.

    Args:
        burst: records of a kind that pass at once.
        per_second: records of a kind that pass each second after that.
        clock: returns seconds.
    """

    def __init__(
        self,
        burst: int = _BURST,
        per_second: float = _PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._burst, self._per_second, self._clock = burst, per_second, clock
        self._buckets: dict[tuple[str, str], _TokenBucket] = {}
        self._lock = new_lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log the record."""
        if record.name in _UNLIMITED:
            return True
        code = (getattr(record, "facts", None) or {}).get("code", record.msg)
        now = self._clock()
        with self._lock:
            # Some messages are formatted before they are logged.
            if len(self._buckets) > _MAX_KINDS:
                self._buckets.clear()
            key = (record.name, str(code))
            bucket = self._buckets.setdefault(key, _TokenBucket(self._burst, now))
            left_out = bucket.take(now, self._burst, self._per_second)
        if left_out:
            record.left_out = left_out
        return left_out is not None


class _TokenBucket:
    """The tokens of one kind of record."""

    def __init__(self, tokens: float, now: float) -> None:
        self._tokens, self._updated, self._left_out = tokens, now, 0

    def take(self, now: float, burst: int, per_second: float) -> int | None:
        """Return how many records were left out before this one; ``None`` to leave it out too."""
        self._tokens = min(burst, self._tokens + (now - self._updated) * per_second)
        self._updated = now
        if self._tokens < 1:
            self._left_out += 1
            return None
        self._tokens -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


class TextFormatter(logging.Formatter):
    """Formats the time, the message, and the level of warnings and errors."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        level = f"{record.levelname} " if record.levelno >= logging.WARNING else ""
        left_out = getattr(record, "left_out", 0)
        more = f" ({left_out} more such lines were left out)" if left_out else ""
        words = " ".join(record.getMessage().splitlines())
        line = f"{self.formatTime(record)} {level}{words}{more}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JSONFormatter(logging.Formatter):
    """Formats one JSON object: time, level, logger, and the message or a request's fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        time = datetime.fromtimestamp(record.created, timezone.utc)
        values: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        facts = getattr(record, "facts", None)
        values |= facts if facts is not None else {"message": record.getMessage()}
        if getattr(record, "left_out", 0):
            values["left_out"] = record.left_out  # type: ignore[attr-defined]
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return json.dumps(values, ensure_ascii=False)


@contextmanager
def log_to_stderr(form: str, level: int) -> Iterator[None]:
    """Send all log records, warnings and thread failures to stderr within this context.

    Args:
        form: ``text`` or ``json``.
        level: of this package's records; those of other libraries start at warnings.
    """
    root, ours = logging.getLogger(), logging.getLogger(PACKAGE)
    handler = logging.StreamHandler()
    handler.setFormatter(JSONFormatter() if form == "json" else TextFormatter())
    handler.addFilter(RateLimitFilter())
    before, level_before, root_before = list(ours.handlers), ours.level, root.level
    show, hook = warnings.showwarning, threading.excepthook
    for one in before:
        ours.removeHandler(one)
    ours.setLevel(level)
    root.setLevel(logging.WARNING)
    root.addHandler(handler)
    warnings.showwarning = _log_warning
    threading.excepthook = _log_thread
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook = show, hook
        root.removeHandler(handler)
        root.setLevel(root_before)
        ours.setLevel(level_before)
        for one in before:
            ours.addHandler(one)


def _log_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    logging.getLogger(PACKAGE).warning("%s: %s", category.__name__, message)


def _log_thread(failed: threading.ExceptHookArgs) -> None:
    """Log the error that ended a thread; ``SystemExit`` is not a failure."""
    error = failed.exc_value
    if error is not None and not isinstance(error, SystemExit):
        name = failed.thread.name if failed.thread is not None else "unknown"
        logging.getLogger(PACKAGE).error("the thread %s failed", name, exc_info=error)
