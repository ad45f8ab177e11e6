"""Where the log goes: every line of the process, as text or as JSON, and never a flood of them."""

from __future__ import annotations

import json
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, TextIO

from ..utils.locks import new_lock

OURS = "ChatTTS"
# A line for each of these is what the server is for; their number has a limit of its own.
_UNBOUNDED = ("ChatTTS.serving.requests",)
_BURST, _PER_SECOND = 50, 2.0
_MOST_KINDS = 1000


class RateLimitFilter(logging.Filter):
    """Lets so many records of one kind pass at once, and a few more each second.

    A kind is what one line of a program says: its logger and its message without the arguments, and
    the code of a refusal. The next record that passes says how many were left out.

    Args:
        burst: records of a kind that pass at once.
        per_second: those that pass later.
        clock: seconds.
    """

    def __init__(
        self,
        burst: int = _BURST,
        per_second: float = _PER_SECOND,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._burst, self._per_second, self._clock = burst, per_second, clock
        self._kinds: dict[tuple[str, str], _TokenBucket] = {}
        self._lock = new_lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """See ``logging.Filter``."""
        if record.name in _UNBOUNDED:
            return True
        code = (getattr(record, "facts", None) or {}).get("code", record.msg)
        now = self._clock()
        with self._lock:
            if len(self._kinds) > _MOST_KINDS:  # such as messages that were put together before
                self._kinds.clear()
            kind = self._kinds.setdefault((record.name, str(code)), _TokenBucket(self._burst, now))
            left_out = kind.take(now, self._burst, self._per_second)
        if left_out:
            record.left_out = left_out
        return left_out is not None


class _TokenBucket:
    """Records that say one thing."""

    def __init__(self, allowed: float, now: float) -> None:
        self._allowed, self._then, self._left_out = allowed, now, 0

    def take(self, now: float, burst: int, per_second: float) -> int | None:
        """How many were left out before this one; ``None`` where this one is, too."""
        self._allowed = min(burst, self._allowed + (now - self._then) * per_second)
        self._then = now
        if self._allowed < 1:
            self._left_out += 1
            return None
        self._allowed -= 1
        left_out, self._left_out = self._left_out, 0
        return left_out


class TextFormatter(logging.Formatter):
    """The time, the level from warnings on, and the message."""

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        level = f"{record.levelname} " if record.levelno >= logging.WARNING else ""
        left_out = getattr(record, "left_out", 0)
        more = f" ({left_out} more such lines were left out)" if left_out else ""
        words = " ".join(record.getMessage().splitlines())
        line = f"{self.formatTime(record)} {level}{words}{more}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JSONFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the facts of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
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
    """Within this context all that is logged goes to standard error, from libraries too.

    Args:
        form: ``text`` or ``json``.
        level: of what the package says; others are heard from warnings on.
    """
    root, ours = logging.getLogger(), logging.getLogger(OURS)
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


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    logging.getLogger(OURS).warning("%s: %s", category.__name__, message)


def _log_thread(failed: threading.ExceptHookArgs) -> None:
    """Say what ended a thread; ``SystemExit`` is not a failure."""
    error = failed.exc_value
    if error is not None and not isinstance(error, SystemExit):
        name = failed.thread.name if failed.thread is not None else "unknown"
        logging.getLogger(OURS).error("the thread %s failed", name, exc_info=error)
