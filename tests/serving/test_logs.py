"""The log: one line for each refusal, one format for all lines, and a limited rate."""

from __future__ import annotations

import inspect
import io
import json
import logging
import sys
import threading
import warnings
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from ChatTTS.serving.errors import UnavailableError
from ChatTTS.serving.http import uvicorn_server as http_server
from ChatTTS.serving.observe.logging_setup import RateLimitFilter, log_to_stderr
from ChatTTS.serving.observe.request_logs import RateLimitedLogger
from ChatTTS.serving.protocols.riva.generated import riva_tts_pb2 as tts

from ..support.server_tools import WholeServer, whole_server
from ..support.serving_tools import PATIENCE, eventually
from ..support.waiting import Clock
from ..support.websocket_tools import speaker

KEY = {"Authorization": "Bearer sesame"}


# ------------------------------------------------------------------ refusals


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(api_keys=("sesame",)) as running:
        yield running


def refusals(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = (r for r in caplog.records if r.name == "ChatTTS.serving.refusals")
    return [record.facts for record in records]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "path", "how", "status", "code"),
    [
        ("POST", "/v1/audio/speech", {"json": {"input": "a"}}, 401, "invalid_api_key"),
        ("GET", "/nowhere", {"headers": KEY}, 404, "not_found"),
        ("PUT", "/tts", {"headers": KEY}, 405, "method_not_allowed"),
        ("POST", "/v1/audio/speech", {"headers": KEY, "json": {}}, 400, "invalid_request"),
        ("GET", "/static/none.js", {}, 404, "not_found"),
    ],
)
def test_each_refusal_is_a_line(
    server: WholeServer,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    how: dict[str, Any],
    status: int,
    code: str,
) -> None:
    with caplog.at_level(logging.INFO, "ChatTTS.serving"):
        answer = httpx.request(method, f"{server.url}{path}", **how)
    assert answer.status_code == status
    (facts,) = refusals(caplog)
    assert (facts["status"], facts["code"]) == (status, code)
    assert facts["address"] == f"{method} {path}"
    assert facts["request"] == answer.headers["x-request-id"]
    assert "sesame" not in str(facts)


def test_each_refusal_of_a_websocket_is_a_line(
    server: WholeServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "ChatTTS.serving"):
        with pytest.raises(InvalidStatus) as caught:
            connect(f"ws://{server.address}/nowhere", proxy=None, open_timeout=PATIENCE)
        with speaker(server, query="?api_key=wrong") as client:
            assert client.until_closed() == 4401
    assert caught.value.response.status_code == 404
    assert json.loads(caught.value.response.body)["error"]["code"] == "not_found"
    assert [facts["status"] for facts in refusals(caplog)] == [404, 401]
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]


# ------------------------------------------------------------------ requests


TEXT = "Hello there."
_CARTESIA = {
    "transcript": TEXT,
    "voice": "clara",
    "output_format": {"container": "raw", "encoding": "pcm_s16le"},
}
SPEECHES: dict[str, tuple[str, Any]] = {
    "rest": ("/tts", {"text": TEXT}),
    "cartesia": ("/tts/bytes", _CARTESIA),
    "deepgram": ("/v1/speak", {"text": TEXT}),
    "elevenlabs": ("/v1/text-to-speech/clara", {"text": TEXT}),
}


def requests(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = (r for r in caplog.records if r.name == "ChatTTS.serving.requests")
    return [record.facts for record in records]  # type: ignore[attr-defined]


def speak_on_a_socket(server: WholeServer) -> str | None:
    """Speak a text; return the code of the error that comes, if one does."""
    with speaker(server, query="?api_key=sesame") as client:
        client.say("input.text", text=TEXT)
        client.say("session.close")
        client.until_closed()
        errors: list[str] = [message["error"]["code"] for message in client.all("error")]
    return errors[0] if errors else None


@pytest.mark.slow
@pytest.mark.parametrize("interface", [*SPEECHES, "websocket", "grpc"])
def test_each_request_is_one_line_with_its_interface(
    server: WholeServer, caplog: pytest.LogCaptureFixture, interface: str
) -> None:
    with caplog.at_level(logging.INFO, "ChatTTS.serving"):
        if interface == "websocket":
            assert speak_on_a_socket(server) is None
        elif interface == "grpc":
            with server.channel() as channel:
                speak = channel.unary_unary("/nvidia.riva.tts.RivaSpeechSynthesis/Synthesize")
                metadata = (("authorization", "Bearer sesame"),)
                asked = tts.SynthesizeSpeechRequest(text=TEXT).SerializeToString()
                assert speak(asked, PATIENCE, metadata)
        else:
            path, body = SPEECHES[interface]
            answer = httpx.post(f"{server.url}{path}", json=body, headers=KEY, timeout=PATIENCE)
            assert answer.status_code == 200, answer.text
        assert eventually(lambda: bool(requests(caplog)))
    (facts,) = requests(caplog)
    assert facts["interface"] == interface
    assert facts["finish"] in ("stop", "length")
    assert not refusals(caplog)


@pytest.mark.parametrize("interface", ["rest", "websocket"])
def test_a_request_that_fails_in_its_turn_is_no_refusal(
    server: WholeServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    interface: str,
) -> None:
    async def fails(*_: object) -> None:
        raise UnavailableError("it is gone")

    monkeypatch.setattr(server.service, "open_stream", fails)
    with caplog.at_level(logging.INFO, "ChatTTS.serving"):
        if interface == "websocket":
            code = speak_on_a_socket(server)
        else:
            path, body = SPEECHES[interface]
            answer = httpx.post(f"{server.url}{path}", json=body, headers=KEY, timeout=PATIENCE)
            code = answer.json()["error"]["code"]
    assert code == "engine_unavailable"
    (facts,) = requests(caplog)
    assert (facts["interface"], facts["finish"]) == (interface, "engine_unavailable")
    assert not refusals(caplog)


# ------------------------------------------------------------------ no flood


def record(message: str, name: str = "some.library", **facts: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.WARNING, "", 0, message, (), None)
    if facts:
        made.facts = facts
    return made


def test_lines_of_one_kind_are_bounded_and_the_rest_is_counted() -> None:
    clock = Clock()
    throttle = RateLimitFilter(burst=3, per_second=0.5, clock=clock)
    assert [throttle.filter(record("again")) for _ in range(10)] == [True] * 3 + [False] * 7
    assert throttle.filter(record("another"))
    clock.now += 2
    later = record("again")
    assert throttle.filter(later)
    assert later.left_out == 7  # type: ignore[attr-defined]
    assert not throttle.filter(record("again"))
    clock.now += 1000
    assert sum(throttle.filter(record("again")) for _ in range(10)) == 3


def test_a_flood_of_one_refusal_hides_no_other() -> None:
    throttle = RateLimitFilter(burst=1, clock=Clock())
    name = "ChatTTS.serving.refusals"
    codes = ["invalid_api_key"] * 5 + ["not_found"]
    passed = [throttle.filter(record("%s", name, code=code)) for code in codes]
    assert passed == [True, False, False, False, False, True]


def test_spoken_requests_are_never_left_out() -> None:
    throttle = RateLimitFilter(burst=1, clock=Clock())
    name = "ChatTTS.serving.requests"
    assert all(throttle.filter(record("%s", name, finish="stop")) for _ in range(100))


def test_a_rate_limited_line_counts_the_lines_left_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    seldom = RateLimitedLogger(logging.getLogger("ChatTTS.serving.test"), 60, clock)
    for _ in range(5):
        seldom.warning("%s is full", "it")
    seldom.warning("something else")
    clock.now += 60
    seldom.warning("%s is full", "it")
    said = [r.getMessage() for r in caplog.records]
    assert said == [
        "it is full",
        "something else",
        "it is full (and 4 more since the last such line)",
    ]


# ------------------------------------------------------------------ one form


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("form", ["text", "json"])
def test_all_lines_have_one_form(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of libraries, of warnings and of failing threads have the form too."""
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    for name in ("uvicorn", "uvicorn.error"):  # an earlier test may have configured them
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
        monkeypatch.setattr(logging.getLogger(name), "handlers", [])
        monkeypatch.setattr(logging.getLogger(name), "level", logging.NOTSET)
        logging.getLogger(name).manager._clear_cache()  # type: ignore[attr-defined]
    before = logging.getLogger("ChatTTS").handlers
    with log_to_stderr(form, logging.INFO):
        logging.getLogger("ChatTTS.serving").info("of our own\nin two lines")
        logging.getLogger("ChatTTS.model").debug("too fine")
        logging.getLogger("uvicorn.error").warning("of %s", "uvicorn")
        logging.getLogger("uvicorn.error").info("what uvicorn says all the time")
        logging.getLogger("grpc._cython.cygrpc").error("of gRPC")
        warnings.warn("a warning", stacklevel=1)
        failing = threading.Thread(target=lambda: 1 / 0, name="failing")
        failing.start()
        failing.join()
    assert logging.getLogger("ChatTTS").handlers == before
    lines = written.getvalue().splitlines()
    if form == "text":
        assert "of our own in two lines" in lines[0]
        assert "WARNING of uvicorn" in lines[1]
        return
    values = [json.loads(line) for line in lines]
    assert [value["message"] for value in values[:3]] == [
        "of our own\nin two lines",
        "of uvicorn",
        "of gRPC",
    ]
    assert "a warning" in values[3]["message"]
    assert "failing" in values[4]["message"]
    assert "ZeroDivisionError" in values[4]["exception"]
    assert len(values) == 5


@pytest.mark.slow
def test_clients_that_do_not_leave_when_the_server_ends_are_no_error() -> None:
    """uvicorn logs each of their sockets with the traceback of its cancelled task."""

    def record(message: str, error: BaseException | None = None) -> logging.LogRecord:
        told = None if error is None else (type(error), error, None)
        return logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, message, (), told)

    stays = inspect.getsource(uvicorn.Server.shutdown)
    (message,) = (told for told in http_server._NO_FAULTS if told.startswith("Cancel"))
    assert message in stays
    assert not http_server._is_fault(record(message))
    assert not http_server._is_fault(record("Exception in ASGI application", CancelledError()))
    assert http_server._is_fault(record("Exception in ASGI application", KeyError()))
