"""Texts that the voice cannot speak, over every interface: refused, or spoken in part and told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from ChatTTS.serving.requests.request import SpeechRequest

from ..support.bundled_voice import UNKNOWN
from ..support.riva_tools import NATIVE, ask, connected
from ..support.serving_tools import PATIENCE, RunningServer, running_server
from ..support.vendor_tools import EXTEND, talker
from ..support.websocket_tools import speaker

NOTHING, PARTLY, LEFT_OUT = UNKNOWN, f"Say {UNKNOWN} to a pear.", list(UNKNOWN)
QUICK = {"seed": 5, "response_format": "pcm"}
SPEECH = "/v1/audio/speech"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(brief=False, extend=EXTEND, result_cache_bytes=1 << 22) as running:
        yield running


def post(server: RunningServer, path: str = SPEECH, **fields: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=QUICK | fields, timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("text", [NOTHING, "привет", f"<speak>{UNKNOWN}<p>{UNKNOWN}</p></speak>"])
@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream_format": "sse"}])
def test_a_text_of_which_nothing_can_be_spoken_is_refused(
    server: RunningServer, text: str, fields: dict[str, Any]
) -> None:
    answer = post(server, input=text, **fields)
    error = answer.json()["error"]
    assert answer.status_code == 422
    assert (error["code"], error["param"]) == ("nothing_to_speak", "input")
    assert error["type"] == "invalid_request_error"
    assert "it speaks English and Chinese, and cannot speak" in error["message"]
    assert server.becomes_idle()


@pytest.mark.parametrize("path", ["/v1/audio/refine", "/dev/captioned_speech"])
def test_so_it_is_on_other_routes(server: RunningServer, path: str) -> None:
    answer = post(server, path, input=NOTHING)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "nothing_to_speak")
    spoken = httpx.get(f"{server.url}/tts", params={"text": NOTHING}, timeout=PATIENCE)
    assert spoken.status_code == 422


@pytest.mark.slow
@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream_format": "sse"}])
def test_a_part_is_spoken_and_the_rest_is_in_a_header(
    server: RunningServer, fields: dict[str, Any]
) -> None:
    for _ in range(2):  # the second one comes from the cache
        answer = post(server, input=PARTLY, **fields)
        assert answer.status_code == 200
        assert answer.headers["x-left-out"].isascii()
        assert [unquote(p) for p in answer.headers["x-left-out"].split(",")] == LEFT_OUT
    assert "x-left-out" not in post(server, input="A pear.", **fields).headers


def test_it_is_in_json(server: RunningServer) -> None:
    answer = post(server, input=PARTLY, stream_format="sse")
    *_, done = [json.loads(b.removeprefix("data: ")) for b in answer.text.split("\n\n")[:-1]]
    assert done["left_out"] == LEFT_OUT
    items = [{"input": PARTLY}, {"input": NOTHING}, {"input": "A pear."}]
    first, second, third = post(server, "/v1/audio/speech/batch", items=items).json()["data"]
    assert (first["left_out"], third["left_out"]) == (LEFT_OUT, None)
    assert second["error"]["code"] == "nothing_to_speak"


def test_a_part_of_ssml_that_cannot_be_spoken_is_told(server: RunningServer) -> None:
    answer = post(
        server, input=f"<speak>{UNKNOWN[0]}<p>A pear.</p><p>{UNKNOWN[1]}</p></speak>", stream=False
    )
    assert [unquote(p) for p in answer.headers["x-left-out"].split(",")] == LEFT_OUT


def test_a_socket_tells_it(server: RunningServer) -> None:
    with speaker(server) as socket:
        socket.say("input.text", text=PARTLY)
        socket.say("input.flush")
        socket.until("audio.done")
        assert socket.all("text.spoken")[0]["left_out"] == LEFT_OUT
        socket.say("input.text", text=NOTHING)
        socket.say("input.flush")
        assert socket.until("error")["error"]["code"] == "nothing_to_speak"


def test_grpc_tells_it(server: RunningServer) -> None:
    with connected(server) as client:
        refused = client.refused(ask(NOTHING))
        assert refused.code().name == "INVALID_ARGUMENT"
        assert f"cannot speak {UNKNOWN}" in refused.details()
        request = ask(PARTLY, sample_rate_hz=NATIVE["sample_rate_hz"])
        _, call = client.stub.Synthesize.with_call(request, timeout=PATIENCE)
        told = dict(call.initial_metadata())["x-left-out"]
        assert [unquote(part) for part in told.split(",")] == LEFT_OUT


def test_vendors_routes_tell_it(server: RunningServer) -> None:
    path, voice = "/v1/text-to-speech/edith/stream", {"output_format": "pcm_24000"}

    def spoken(text: str) -> httpx.Response:
        body = {"text": text, "model_id": "x", "seed": 1}
        return httpx.post(server.url + path, params=voice, json=body, timeout=PATIENCE)

    assert spoken(NOTHING).status_code == 422
    assert spoken(NOTHING).json()["detail"]["code"] == "nothing_to_speak"
    assert unquote(spoken(PARTLY).headers["x-left-out"]) == ",".join(UNKNOWN)


def context(text: str) -> dict[str, Any]:
    return {
        "model_id": "x",
        "transcript": text,
        "voice": {"mode": "id", "id": "edith"},
        "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000},
        "context_id": "a",
        "seed": 1,
    }


def test_a_sentence_that_cannot_be_spoken_leaves_the_others(server: RunningServer) -> None:
    kinds: dict[str, set[str]] = {}
    for text in (NOTHING, f"A pear was here. {UNKNOWN} {UNKNOWN}. It was late in the night."):
        with talker(server, "/tts/websocket") as client:
            client.say(**context(text))
            heard: list[dict[str, Any]] = []
            while not heard or not heard[-1]["done"]:
                message = client.hear()
                assert isinstance(message, dict)
                heard.append(message)
        kinds[text] = {message["type"] for message in heard}
        if text == NOTHING:
            assert heard[-1]["error_code"] == "nothing_to_speak"
    assert [sorted(each & {"chunk", "error"}) for each in kinds.values()] == [["error"], ["chunk"]]


def test_marks_and_emoji_stay_a_short_silence(server: RunningServer) -> None:
    answer = post(server, input="** 😀")
    assert (answer.status_code, "x-left-out" in answer.headers) == (200, False)
    assert answer.headers["x-silence"]


def test_a_key_alone_is_a_silence_that_tells_it(server: RunningServer) -> None:
    answer = post(server, input="x" * 200)
    assert (answer.status_code, answer.headers["x-left-out"]) == (200, "x" * 40 + "...")
    assert answer.headers["x-silence"]


def test_the_service_tells_it_before_the_first_sound(server: RunningServer) -> None:
    async def left_out() -> tuple[str, ...]:
        async with server.service.speak(SpeechRequest(PARTLY, seed=1, may_be_silent=True)) as said:
            return said.left_out

    assert list(server.run(left_out())) == LEFT_OUT
