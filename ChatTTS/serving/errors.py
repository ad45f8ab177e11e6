"""What a server answers instead of speech, with its number in every interface."""

from __future__ import annotations

from typing import Any

from ..errors import (
    AudioError,
    ChatTTSError,
    ConfigError,
    EngineDeadError,
    EngineUnavailableError,
    NotLoadedError,
    TextError,
    VoiceError,
)
from ..pipeline.results import EmptySpeechError


class ServingError(ChatTTSError):
    """Base of every error that a server answers with; its message is meant for the client.

    Attributes:
        status: of HTTP.
        grpc: name of a ``grpc.StatusCode``.
        code: for programs to branch on, as OpenAI's API has it.
        retry_after: seconds after which it is worth to ask again; None where that is not known.
        param: the field of the request that is at fault, if one is.
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
        """The kind of error, in OpenAI's words."""
        if self.status == 401:
            return "authentication_error"
        if self.status == 429:
            return "rate_limit_error"
        return "server_error" if self.status >= 500 else "invalid_request_error"

    def as_json(self) -> dict[str, Any]:
        """The ``error`` object of OpenAI's API."""
        return {
            "message": str(self),
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }


class BadRequestError(ServingError):
    """A request that is wrong in itself: it fails again if it is sent again."""

    status, grpc, code = 400, "INVALID_ARGUMENT", "invalid_request"


class AuthenticationError(ServingError):
    """A request without a key, or with a wrong one."""

    status, grpc, code = 401, "UNAUTHENTICATED", "invalid_api_key"


class ForeignPageError(ServingError):
    """A request by a page of another host, in a browser within reach."""

    status, grpc, code = 403, "PERMISSION_DENIED", "foreign_page"


class UnknownVoiceError(ServingError):
    """A voice that is not here.

    Args:
        is_address: the voice is what the request's path names (404), and not one of its fields
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
    """An address at which nothing is."""

    status, grpc, code = 404, "NOT_FOUND", "not_found"


class RequestTooLargeError(ServingError):
    """A text, a recording or a body over the server's limit."""

    status, grpc, code = 413, "INVALID_ARGUMENT", "request_too_large"


class SlowRequestError(ServingError):
    """A request whose body did not come in time."""

    status, grpc, code = 408, "DEADLINE_EXCEEDED", "request_timeout"


class OverloadedError(ServingError):
    """A request that is refused at once, since too many wait.

    Args:
        own_limit: the client's own limit is reached (429), and not the server's (503).
        draining: the server is shutting down and takes nobody.
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
    """A request whose time was over before it was done."""

    status, grpc, code = 503, "DEADLINE_EXCEEDED", "deadline_exceeded"


class UnavailableError(ServingError):
    """The engine is not there: not yet, or no longer."""

    status, grpc, code = 503, "UNAVAILABLE", "engine_unavailable"


class EngineFailedError(ServingError):
    """The engine could not do what was asked, and the request is not at fault."""

    status, grpc, code = 500, "INTERNAL", "engine_failed"


def as_serving_error(error: BaseException) -> ServingError:
    """What to tell a client of any error; the error itself is the answer's ``__cause__``.

    Only errors about the request keep their words. Others may name files or tensors of the server,
    which belong in its log.
    """
    if isinstance(error, ServingError):
        return error
    answer = _answer(error)
    answer.__cause__ = error
    return answer


def _answer(error: BaseException) -> ServingError:
    if isinstance(error, TextError):
        return BadRequestError(str(error), param="input")
    if isinstance(error, VoiceError):
        return BadRequestError(str(error), param="voice")
    if isinstance(error, ConfigError | AudioError):
        return BadRequestError(str(error))
    if isinstance(error, EngineDeadError | EngineUnavailableError | NotLoadedError):
        return UnavailableError("the speech engine is not running: ask the server's operator")
    if isinstance(error, EmptySpeechError):
        return EngineFailedError(
            "nothing was spoken: the model ended at once in every attempt. Try another seed or "
            "more words"
        )
    if isinstance(error, ChatTTSError):
        return EngineFailedError(
            "the speech engine could not do this request: try another seed or a shorter text; the "
            "server's log has the cause"
        )
    return ServingError("the server failed at this request; its log has the cause")
