"""The answer of the server to every error."""

import asyncio
import errno
from pathlib import Path

import httpx
import pytest

from ChatTTS import errors
from ChatTTS.pipeline.results import EmptySpeechError
from ChatTTS.serving.errors import (
    AuthenticationError,
    BadRequestError,
    NothingSpokenError,
    OverloadedError,
    RequestTooLargeError,
    ServingError,
    UnknownVoiceError,
    as_serving_error,
)

from ..support.serving_tools import PATIENCE, running_server


@pytest.mark.parametrize(
    ("error", "status", "grpc", "kind"),
    [
        (BadRequestError("x"), 400, "INVALID_ARGUMENT", "invalid_request_error"),
        (AuthenticationError("x"), 401, "UNAUTHENTICATED", "authentication_error"),
        (UnknownVoiceError("x"), 400, "INVALID_ARGUMENT", "invalid_request_error"),
        (UnknownVoiceError("x", is_address=True), 404, "NOT_FOUND", "invalid_request_error"),
        (RequestTooLargeError("x"), 413, "INVALID_ARGUMENT", "invalid_request_error"),
        (OverloadedError("x", own_limit=True), 429, "RESOURCE_EXHAUSTED", "rate_limit_error"),
        (OverloadedError("x"), 503, "RESOURCE_EXHAUSTED", "server_error"),
        (errors.TextError("x"), 400, "INVALID_ARGUMENT", "invalid_request_error"),
        (errors.VoiceError("x"), 400, "INVALID_ARGUMENT", "invalid_request_error"),
        (errors.ConfigError("x"), 400, "INVALID_ARGUMENT", "invalid_request_error"),
        (errors.AudioError("x"), 400, "INVALID_ARGUMENT", "invalid_request_error"),
        (errors.EngineDeadError("secret"), 503, "UNAVAILABLE", "server_error"),
        (errors.NotLoadedError("secret"), 503, "UNAVAILABLE", "server_error"),
        (errors.GenerationError("secret"), 500, "INTERNAL", "server_error"),
        (errors.AssetError("secret"), 500, "INTERNAL", "server_error"),
        (EmptySpeechError(["secret"], None), 422, "INVALID_ARGUMENT", "invalid_request_error"),
        (OSError(errno.ENOSPC, "secret"), 507, "RESOURCE_EXHAUSTED", "server_error"),
        (OSError(errno.EIO, "secret"), 500, "INTERNAL", "server_error"),
        (RuntimeError("secret"), 500, "INTERNAL", "server_error"),
        (asyncio.CancelledError("secret"), 500, "INTERNAL", "server_error"),
    ],
)
def test_any_error_has_an_answer(error: BaseException, status: int, grpc: str, kind: str) -> None:
    answer = as_serving_error(error)
    assert isinstance(answer, ServingError)
    assert (answer.status, answer.grpc) == (status, grpc)
    said = answer.as_json()
    assert said == {
        "message": str(answer),
        "type": kind,
        "param": answer.param,
        "code": answer.code,
    }
    assert "secret" not in str(answer)
    if isinstance(error, ServingError):
        assert answer is error
    else:
        assert answer.__cause__ is error
        is_own = answer.status >= 500 or isinstance(answer, NothingSpokenError)
        assert is_own or str(answer) == "x"


def test_errors_name_the_field_at_fault() -> None:
    assert as_serving_error(errors.TextError("x")).param == "input"
    assert as_serving_error(errors.VoiceError("x")).param == "voice"
    assert UnknownVoiceError("x").param == "voice"
    assert BadRequestError("x").param is None


@pytest.mark.parametrize("own", [True, False])
def test_an_instance_does_not_change_its_class(own: bool) -> None:
    OverloadedError("x", own_limit=own, draining=not own)
    assert (OverloadedError.status, OverloadedError.grpc) == (503, "RESOURCE_EXHAUSTED")


def test_a_full_disk_is_named_wherever_it_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ChatTTS.audio.files.write_file", full)
    with running_server(warm=False) as server:
        form = {"name": "anna", "speaker": "clara:0.5,edith:0.5", "consent": "Anna agreed."}
        answer = httpx.post(f"{server.url}/v1/audio/voices", data=form, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "storage_failed")
    assert "delete voices" in answer.json()["error"]["message"]
    assert str(tmp_path.parent) not in answer.text
