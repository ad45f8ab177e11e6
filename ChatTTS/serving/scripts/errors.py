"""Errors of scripts, with the place in the script where it is known."""

from __future__ import annotations

import errno
from typing import Any

from ...errors import AudioError, ChatTTSError
from ...longform.script import ScriptError
from ..errors import NotFoundError, ServingError, StorageError, as_serving_error


class ScriptRefusedError(ServingError):
    """A script that cannot be spoken: sent again, it fails again.

    Attributes:
        file, line: its place; ``None`` where the error is not in one place.
    """

    status, grpc, code = 400, "INVALID_ARGUMENT", "invalid_script"

    def __init__(self, message: str, file: str | None = None, line: int | None = None) -> None:
        super().__init__(message, param="script")
        self.file, self.line = file, line

    def as_json(self) -> dict[str, Any]:
        """Return the ``error`` object of OpenAI's API, with the place."""
        return super().as_json() | {"file": self.file, "line": self.line}


class UnfinishedScriptError(ServingError):
    """The result of a script that is not there: not yet, or never."""

    status, grpc, code = 409, "FAILED_PRECONDITION", "script_unfinished"


class UnknownScriptError(NotFoundError):
    """A job that does not exist, or belongs to another client."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"you have no script {name[:80]!r}; GET /v1/audio/scripts lists your scripts",
            param="id",
        )


def script_error(error: BaseException) -> ServingError:
    """Return what a client is told of an error of its script; ``error`` becomes its cause."""
    answer = _answer(error)
    answer.__cause__ = answer.__cause__ or error
    return answer


def _answer(error: BaseException) -> ServingError:
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(error, AudioError | OSError) and isinstance(cause, OSError):
        # Its message names files of the server.
        reason = "the disk is full" if cause.errno == errno.ENOSPC else "the disk reports an error"
        return StorageError(
            f"the server cannot store the audio ({reason}): ask its operator. The lines that are "
            "finished are kept until the script is deleted"
        )
    if isinstance(error, ScriptError):
        place = error.place
        refused = ScriptRefusedError(str(error))
        if place is not None:
            refused.file, refused.line = place.file, place.line or None
        if isinstance(cause, ServingError) and cause.status >= 500:  # not the script's fault
            refused.status, refused.grpc, refused.code = cause.status, cause.grpc, cause.code
        return refused
    if type(error) is ChatTTSError:
        return ScriptRefusedError(str(error))
    return as_serving_error(error)
