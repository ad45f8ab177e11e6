"""What the server's log says: a line for each request; texts only where asked for."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..errors import ChatTTSError
from .errors import ServingError
from .metrics import RequestRecord

logger = logging.getLogger("ChatTTS.serving.requests")
refusals = logging.getLogger("ChatTTS.serving.refusals")

_BEGINNING = 80


def log_request(record: RequestRecord, interface: str, *, with_text: bool) -> None:
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
        "first_audio": _rounded(record.first_audio),
        "latency": _rounded(record.latency),
        "audio": _rounded(record.seconds),
        "real_time_factor": _rounded(record.real_time_factor),
        "underruns": record.underruns,
        "cached": record.is_cached,
    }
    if with_text:
        facts["text"] = request.text[:_BEGINNING]
    logger.info("%s", _line(facts), extra={"facts": facts})


def log_refusal(
    error: ServingError,
    interface: str,
    *,
    client: str,
    address: str | None = None,
    request_id: str | None = None,
) -> None:
    """Say that a request was not taken.

    Args:
        interface: by which it came.
        client: that asked, or its address.
        address: that it asked for; only its beginning is told.
    """
    facts: dict[str, Any] = {
        "request": request_id,
        "client": client,
        "interface": interface,
        "address": None if address is None else address[:_BEGINNING],
        "status": error.status,
        "code": error.code,
    }
    refusals.info("%s", _line(facts), extra={"facts": facts})


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


class RateLimitedLogger:
    """Says the same kind of thing at most once in a while, and how often it kept silent.

    Args:
        logger: where it says so.
        seconds: between two lines.
        clock: seconds.
    """

    def __init__(
        self,
        logger: logging.Logger,
        seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger, self._seconds, self._clock = logger, seconds, clock
        self._said: dict[str, float] = {}
        self._silent: Counter[str] = Counter()

    def warning(self, message: str, *arguments: object) -> None:
        """As ``Logger.warning``; lines with one ``message`` count as one kind."""
        now = self._clock()
        if now - self._said.get(message, -self._seconds) < self._seconds:
            self._silent[message] += 1
            return
        self._said[message] = now
        before = self._silent.pop(message, 0)
        more = f" (and {before} more since the last such line)" if before else ""
        self._logger.warning(f"{message}%s", *arguments, more)


def _line(facts: dict[str, Any]) -> str:
    # As JSON where it may hold anything: a line break in a name must not begin a new line.
    return " ".join(
        f"{name}={json.dumps(value) if isinstance(value, str) else value}"
        for name, value in facts.items()
        if value is not None
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
