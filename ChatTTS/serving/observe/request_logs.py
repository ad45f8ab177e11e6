"""Log lines of the server: one for each request; with its text only if the settings say so."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ...errors import ChatTTSError
from ..errors import ServingError
from .metrics import RequestRecord

logger = logging.getLogger("ChatTTS.serving.requests")
refusals = logging.getLogger("ChatTTS.serving.refusals")

_MAX_SHOWN = 80  # characters of a text or an address


def log_request(record: RequestRecord, *, with_text: bool) -> None:
    """Log how a request went.

    Args:
        with_text: whether to include the beginning of its text.
    """
    request = record.request
    facts: dict[str, Any] = {
        "request": request.request_id,
        "client": request.client,
        "interface": request.interface,
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
        "faults": record.faults.total() if request.guard else None,
        "retries": record.retries or None,
    }
    if with_text:
        facts["text"] = request.text[:_MAX_SHOWN]
    logger.info("%s", _line(facts), extra={"facts": facts})


def log_refusal(
    error: ServingError,
    interface: str,
    *,
    client: str,
    address: str | None = None,
    request_id: str | None = None,
) -> None:
    """Log that a request was refused.

    Args:
        interface: its short name, such as ``rest``, ``websocket`` or ``grpc``.
        client: name of the client, or its network address.
        address: method and path of the request; only the beginning is logged.
        request_id: its id, if it has one.
    """
    facts: dict[str, Any] = {
        "request": request_id,
        "client": client,
        "interface": interface,
        "address": None if address is None else address[:_MAX_SHOWN],
        "status": error.status,
        "code": error.code,
    }
    refusals.info("%s", _line(facts), extra={"facts": facts})


def log_failure(what: str, error: BaseException, *, with_text: bool) -> None:
    """Log an unexpected failure with its traceback.

    Args:
        what: what failed, such as "request 17".
        error: the error, or the client's error whose ``__cause__`` it is.
        with_text: whether texts may be logged; messages of this package's errors may quote them.
    """
    cause = error.__cause__ or error
    if isinstance(cause, ChatTTSError) and not with_text:
        logger.error("%s failed: %s", what, type(cause).__name__)
    else:
        logger.error("%s failed", what, exc_info=cause)


class RateLimitedLogger:
    """Logs each kind of warning at most once per interval, with the number of those left out.

    Args:
        logger: where the warnings go.
        seconds: the interval.
        clock: returns seconds.
    """

    def __init__(
        self,
        logger: logging.Logger,
        seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger, self._seconds, self._clock = logger, seconds, clock
        self._logged_at: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()

    def warning(self, message: str, *arguments: object) -> None:
        """Log as ``Logger.warning`` does; equal values of ``message`` are one kind."""
        now = self._clock()
        if now - self._logged_at.get(message, -self._seconds) < self._seconds:
            self._left_out[message] += 1
            return
        self._logged_at[message] = now
        before = self._left_out.pop(message, 0)
        more = f" (and {before} more since the last such line)" if before else ""
        self._logger.warning(f"{message}%s", *arguments, more)


def _line(facts: dict[str, Any]) -> str:
    # Strings as JSON, since a line break in a client's name must not begin a new log line.
    return " ".join(
        f"{name}={json.dumps(value) if isinstance(value, str) else value}"
        for name, value in facts.items()
        if value is not None
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
