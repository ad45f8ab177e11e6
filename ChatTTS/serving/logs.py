"""The server's log: a line for each request, as text or as JSON; texts only where asked for."""

from __future__ import annotations

import json
import logging
from datetime import datetime, timezone
from typing import Any

from ..errors import ChatTTSError
from .measures import Record

logger = logging.getLogger("ChatTTS.serving.requests")

_BEGINNING = 80


def log_request(record: Record, interface: str, *, with_text: bool) -> None:
    """Say how a request went.

    Args:
        interface: by which it came.
        with_text: whether the beginning of its text may be told.
    """
    request = record.request
    facts: dict[str, Any] = {
        "request": request.request_id,
        "client": request.client,
        "interface": interface,
        "priority": request.priority.name.lower(),
        "characters": len(request.text),
        "finish": record.finish,
        "queued": _rounded(record.queued),
        "first_audio": _rounded(record.first),
        "latency": _rounded(record.whole),
        "audio": _rounded(record.seconds),
        "real_time_factor": _rounded(record.real_time_factor),
        "underruns": record.underruns,
        "cached": record.is_cached,
    }
    if with_text:
        facts["text"] = request.text[:_BEGINNING]
    logger.info("%s", _line(facts), extra={"facts": facts})


def log_failure(what: str, error: BaseException, *, with_text: bool) -> None:
    """Say that something failed which should not, and where.

    Args:
        what: such as "request 17".
        error: or the answer that was made of it.
        with_text: whether texts may be told; the words of our own errors may quote them.
    """
    cause = error.__cause__ or error
    if isinstance(cause, ChatTTSError) and not with_text:
        logger.error("%s failed: %s", what, type(cause).__name__)
    else:
        logger.error("%s failed", what, exc_info=cause)


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
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return json.dumps(values, ensure_ascii=False)


def _line(facts: dict[str, Any]) -> str:
    # As JSON where it may hold anything: a line break in a name must not begin a new line.
    return " ".join(
        f"{name}={json.dumps(value) if isinstance(value, str) else value}"
        for name, value in facts.items()
        if value is not None
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
