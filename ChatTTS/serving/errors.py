"""Errors that the server answers with, and their status codes in every interface."""

from __future__ import annotations

import errno
import math
from typing import Any

from ..errors import (
    AudioError,
    ChatTTSError,
    ConfigError,
    EngineDeadError,
    EngineUnavailableError,
    NothingToSpeakError,
    NotLoadedError,
    TextError,
    TimeTooShortError,
    VoiceError,
)
from ..pipeline.results import EmptySpeechError


class ServingError(ChatTTSError):
    """Base of every error that a server answers with; its message is meant for the client.

    Attributes:
        status: the HTTP status.
        grpc: name of a ``grpc.StatusCode``.
        code: identifies the error for programs, as in OpenAI's API.
        retry_after: seconds after which a retry makes sense; ``None`` if that is not known.
        param: the field of the request that is wrong; ``None`` if it is not one field.
    """

    status: int = 500
    grpc: str = "INTERNAL"
    code: str = "internal_error"

    def __init__(
        self, message: str, *, param: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.param = param
        self.retry_after = retry_after

    @property
    def type(self) -> str:
        """The type of the error in OpenAI's API."""
        if self.status == 401:
            return "authentication_error"
        if self.status == 429:
            return "rate_limit_error"
        return "server_error" if self.status >= 500 else "invalid_request_error"

    @property
    def retry_headers(self) -> dict[str, str]:
        """The header ``Retry-After``, in whole seconds; none if it is not known."""
        seconds = self.retry_after
        return {} if seconds is None else {"Retry-After": str(max(1, math.ceil(seconds)))}

    def as_json(self) -> dict[str, Any]:
        """Return the ``error`` object of OpenAI's API."""
        return {
            "message": str(self),
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }


class BadRequestError(ServingError):
    """An invalid request: it fails again if it is sent again."""

    status, grpc, code = 400, "INVALID_ARGUMENT", "invalid_request"


class AuthenticationError(ServingError):
    """A request without a key, or with a wrong one."""

    status, grpc, code = 401, "UNAUTHENTICATED", "invalid_api_key"


class ForeignPageError(ServingError):
    """A request from a web page of another origin."""

    status, grpc, code = 403, "PERMISSION_DENIED", "foreign_page"


class UnknownVoiceError(ServingError):
    """A voice that does not exist.

    Args:
        is_address: the path of the request names the voice (404), not one of its fields
            (400, as OpenAI answers).
    """

    status, grpc, code = 400, "INVALID_ARGUMENT", "voice_not_found"

    def __init__(
        self, message: str, *, param: str | None = "voice", is_address: bool = False
    ) -> None:
        super().__init__(message, param=param)
        if is_address:
            self.status, self.grpc = 404, "NOT_FOUND"


class NotFoundError(ServingError):
    """A path that does not exist."""

    status, grpc, code = 404, "NOT_FOUND", "not_found"


class UnspeakableError(ServingError):
    """A text of which the model can speak nothing, such as one in another language."""

    status, grpc, code = 422, "INVALID_ARGUMENT", "nothing_to_speak"


class TooShortError(ServingError):
    """A duration that is too short for its text; the message has the shortest one."""

    status, grpc, code = 422, "INVALID_ARGUMENT", "duration_too_short"


class NothingSpokenError(ServingError):
    """A text at which the model ended at once, in every attempt."""

    status, grpc, code = 422, "INVALID_ARGUMENT", "nothing_spoken"


class StorageError(ServingError):
    """The server cannot keep what a request needs."""

    status, grpc, code = 507, "RESOURCE_EXHAUSTED", "storage_failed"


class RequestTooLargeError(ServingError):
    """A text, a recording or a body that exceeds the server's limit."""

    status, grpc, code = 413, "INVALID_ARGUMENT", "request_too_large"


class SlowRequestError(ServingError):
    """A request whose body did not come in time."""

    status, grpc, code = 408, "DEADLINE_EXCEEDED", "request_timeout"


class OverloadedError(ServingError):
    """A request that is refused at once, since too many requests wait.

    Args:
        own_limit: the limit of this client is reached (429), not the limit of the server (503).
        draining: the server shuts down and accepts no requests.
    """

    status, grpc, code = 503, "RESOURCE_EXHAUSTED", "server_overloaded"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        own_limit: bool = False,
        draining: bool = False,
    ) -> None:
        super().__init__(message, retry_after=retry_after)
        self.draining = draining
        if draining:
            self.grpc, self.code = "UNAVAILABLE", "shutting_down"
        elif own_limit:
            self.status, self.code = 429, "rate_limit_exceeded"


class DeadlineError(ServingError):
    """A request whose deadline passed before it was done."""

    status, grpc, code = 503, "DEADLINE_EXCEEDED", "deadline_exceeded"


class UnavailableError(ServingError):
    """The engine does not run: not yet, or no longer."""

    status, grpc, code = 503, "UNAVAILABLE", "engine_unavailable"


class EngineFailedError(ServingError):
    """A failure of the engine that the request did not cause."""

    status, grpc, code = 500, "INTERNAL", "engine_failed"


def as_serving_error(error: BaseException) -> ServingError:
    """Return the error that a client is told; ``error`` itself becomes its ``__cause__``.

    Only errors about the request keep their message. Messages of others may name files or tensors
    of the server, which only its log should show.
    """
    if isinstance(error, ServingError):
        return error
    answer = full_disk(error) or _answer(error)
    answer.__cause__ = error
    return answer


def full_disk(error: BaseException) -> StorageError | None:
    """Return the error for a full disk, if that is the cause."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    if cause is not None and cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            "the disk is full: delete voices and scripts that you no longer need, or ask the "
            "server's operator to make room; then send the request again"
        )
    return None


def _answer(error: BaseException) -> ServingError:
    if isinstance(error, NothingToSpeakError):
        return UnspeakableError(str(error), param="input")
    if isinstance(error, TimeTooShortError):
        return TooShortError(str(error), param="duration")
    if isinstance(error, TextError):
        return BadRequestError(str(error), param="input")
    if isinstance(error, VoiceError):
        return BadRequestError(str(error), param="voice")
    if isinstance(error, ConfigError | AudioError):
        return BadRequestError(str(error))
    if isinstance(error, EngineDeadError | EngineUnavailableError | NotLoadedError):
        return UnavailableError("the speech engine is not running: ask the server's operator")
    if isinstance(error, EmptySpeechError):
        return NothingSpokenError(
            "nothing was spoken: the model ended at once in every attempt. Try another seed or "
            "more words",
            param="input",
        )
    if isinstance(error, ChatTTSError):
        return EngineFailedError(
            "the speech engine could not process this request: try another seed or a shorter "
            "text; the server's log has the cause"
        )
    return ServingError("the server failed to process this request; its log has the cause")
