"""Fields by names that the interface does not have: the error says which name was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import httpx
import pytest
from mcp import Client

from ChatTTS.config.request_fields import similar_name
from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.http.bodies import Fields
from ChatTTS.serving.protocols.mcp import make_server
from ChatTTS.serving.protocols.riva.request_parsing import parse_configuration
from ChatTTS.serving.protocols.websocket.config import ContextConfig

from ..support.serving_tools import RunningServer, running_server
from ..support.vendor_tools import EXTEND, talker
from ..support.websocket_tools import speaker

CARTESIA = {"voice": "clara", "output_format": {"container": "raw"}}


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(extend=EXTEND) as running:
        yield running


def hint(wrong: str, right: str) -> str:
    return f"{wrong!r} is no field; did you mean {right!r}?"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body", "right"),
    [
        ("/v1/audio/speech", {"text": "Hello."}, "input"),
        ("/v1/audio/speech", {"imput": "Hello."}, "input"),
        ("/v1/audio/speech/batch", {"items": [{"input": "a"}, {"text": "b"}]}, "input"),
        ("/v1/audio/refine", {"text": "Hello."}, "input"),
        ("/v1/audio/scripts", {"text": "Hello."}, "script"),
        ("/dev/captioned_speech", {"text": "Hello."}, "input"),
        ("/tts", {"input": "Hello."}, "text"),
        ("/v1/text-to-speech/clara", {"input": "Hello."}, "text"),
        ("/v1/speak", {"input": "Hello."}, "text"),
        ("/tts/bytes", {"text": "Hello.", **CARTESIA}, "transcript"),
    ],
)
def test_bodies(client: httpx.Client, path: str, body: Mapping[str, Any], right: str) -> None:
    answer = client.post(path, json=body)
    wrong = next(iter(body["items"][1] if "items" in body else body))
    assert answer.status_code in (400, 422), answer.text
    assert hint(wrong, right) in answer.text
    if path.startswith("/v1/audio"):
        assert answer.json()["error"]["param"] == ("items.1." if "items" in body else "") + right


def test_addresses_and_forms(client: httpx.Client) -> None:
    for answer in (
        client.get("/tts", params={"input": "Hello."}),
        client.post("/tts", data={"input": "Hello."}),
    ):
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "text")
        assert hint("input", "text") in answer.json()["error"]["message"]


def test_a_field_that_is_only_missing(client: httpx.Client) -> None:
    body = {"voice": "clara", "zzz": 1, "x" * 1000: 1}
    error = client.post("/v1/audio/speech", json=body).json()["error"]
    assert (error["message"], error["param"]) == ("input: Field required", "input")


def test_the_socket(server: RunningServer) -> None:
    with speaker(server) as client:
        client.say("input.text", input="Hello.")
        assert client.hear()["error"]["message"] == hint("input", "text")
        client.say("session.config", language_code="zh")
        message = client.hear()["error"]["message"]
        assert message == "session.config has no field 'language_code'; did you mean 'language'?"


def test_sockets_of_vendors(server: RunningServer) -> None:
    with talker(server, "/tts/websocket") as client:
        client.say(text="Hello.", context_id="a", **CARTESIA)
        assert hint("text", "transcript") in str(client.hear())
    with talker(server, "/v1/speak") as client:
        assert "Metadata" in str(client.hear())
        client.say(type="Speak", input="Hello.")
        assert hint("input", "text") in str(client.hear())


def test_tools(server: RunningServer) -> None:
    async def ready() -> Any:
        return server.service

    async def call() -> Any:
        async with Client(make_server(ready, None, may_play=False)) as client:
            return await client.call_tool("speak", {"input": "Hello."})

    answer = server.run(call())
    assert answer.is_error
    assert answer.content[0].text == f"speak: text: {hint('input', 'text')}"


def test_settings_by_other_names() -> None:
    with pytest.raises(BadRequestError, match="'sped'; did you mean 'speed'"):
        ContextConfig().updated({"sped": 1.0})
    with pytest.raises(BadRequestError, match="'qqqqqq'; it has: seed, temp"):
        ContextConfig().updated({"qqqqqq": 1.0})
    with pytest.raises(BadRequestError, match="has no 'top-p': did you mean 'top_p'"):
        parse_configuration({"top-p": "1"})
    with pytest.raises(BadRequestError, match="has no 'qqqqqq': use seed, "):
        parse_configuration({"qqqqqq": "1"})


def test_names_of_the_table_come_first() -> None:
    assert similar_name("input", ["inputs", "text"]) == "text"
    assert similar_name("input", ["inputs", "voice"]) == "inputs"
    assert similar_name("language", ["lang_code"]) == "lang_code"
    assert similar_name("input", ["voice", "seed"]) is None
    many = [f"unknown_{number}" for number in range(200)]
    assert similar_name("input", [*many, "inputs"]) is None  # bounded work
    assert similar_name("input", [*many, "text"]) == "text"


def _bodies() -> Iterator[type[Fields]]:
    for name in ("rest.script_schemas", "rest.ovos", "elevenlabs.bodies", "cartesia.bodies",
                 "deepgram.routes"):  # fmt: skip
        import_module(f"ChatTTS.serving.protocols.{name}")
    waiting = [Fields]
    while waiting:
        waiting += (body := waiting.pop()).__subclasses__()
        yield body


def test_no_body_has_two_fields_of_similar_names() -> None:
    """Otherwise a known field could be called unknown, where the other one is missing."""
    for body in _bodies():
        names = [each.alias or name for name, each in body.model_fields.items()]
        for name, each in body.model_fields.items():
            if each.is_required():
                others = [other for other in names if other != name]
                assert similar_name(name, others) is None, (body, name)
