"""ElevenLabs' API, by plain clients that speak as its SDKs, Pipecat and LiveKit do."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, cast

import httpx
import numpy as np
import pytest
from fastapi import WebSocket
from numpy.typing import NDArray
from websockets.exceptions import ConnectionClosed, InvalidStatus

from ChatTTS.params import InferCodeParams
from ChatTTS.serving.encoding import Format
from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.http.auth import Authenticator
from ChatTTS.serving.protocols.elevenlabs.formats import OutputFormat
from ChatTTS.serving.protocols.elevenlabs.session import Session

from ...support.serving_tools import RunningServer, eventually
from ...support.vendor_tools import KEY, SEED, TEXT, VOICE, get, max_difference, post, talker
from ...support.websocket_tools import LONG, is_over

ADDRESS = f"/v1/text-to-speech/{VOICE}"
PCM = "?output_format=pcm_24000"
BODY = {"text": TEXT, "model_id": "eleven_flash_v2_5", "seed": SEED}


def sound(messages: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(message.get("audio") or "") for message in messages)


def alignments(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message["alignment"] for message in messages if message.get("alignment")]


def chars(told: list[dict[str, Any]]) -> str:
    return "".join(char for alignment in told for char in alignment["chars"])


# -- HTTP ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/stream"])
def test_sound(server: RunningServer, whole: NDArray[np.int16], path: str) -> None:
    settings = {"stability": 0.2, "similarity_boost": 1.0, "speed": 1.0}
    answer = post(server, f"{ADDRESS}{path}{PCM}", {**BODY, "voice_settings": settings})
    assert answer.headers["content-type"] == "audio/pcm"
    assert (answer.headers["x-seed"], answer.headers["x-sample-rate"]) == (str(SEED), "24000")
    assert max_difference(answer.content, whole) <= 1


@pytest.mark.parametrize("path", ["/with-timestamps", "/stream/with-timestamps"])
def test_sound_with_characters(server: RunningServer, whole: NDArray[np.int16], path: str) -> None:
    answer = post(server, f"{ADDRESS}{path}{PCM}", BODY)
    parts = [json.loads(line) for line in answer.text.splitlines()]
    assert (len(parts) > 1) == ("stream" in path)
    audio = b"".join(base64.b64decode(part["audio_base64"]) for part in parts)
    assert max_difference(audio, whole) <= 1
    told = [part["alignment"] for part in parts if part["alignment"]]
    assert "".join(c for a in told for c in a["characters"]) == TEXT
    starts = [t for a in told for t in a["character_start_times_seconds"]]
    ends = [t for a in told for t in a["character_end_times_seconds"]]
    assert all(start <= end for start, end in zip(starts, ends, strict=True))
    assert starts == sorted(starts)
    assert ends[-1] == pytest.approx(len(whole) / 24_000, abs=0.001)


def test_tempo_and_format(server: RunningServer, whole: NDArray[np.int16]) -> None:
    body = {**BODY, "voice_settings": {"speed": 1.2}}
    answer = post(server, f"{ADDRESS}?output_format=ulaw_8000", body)
    assert abs(len(answer.content) - len(whole) / 3 / 1.2) < 800
    assert post(server, ADDRESS, BODY).headers["content-type"] == "audio/mpeg"


@pytest.mark.parametrize(
    ("path", "body", "status", "code", "param"),
    [
        ("/v1/text-to-speech/nobody", BODY, 404, "voice_not_found", "voice_id"),
        (f"{ADDRESS}?output_format=mp3_1_2", BODY, 400, "invalid_request", "output_format"),
        (ADDRESS, {"text": ""}, 400, "invalid_request", "input"),
        (ADDRESS, {"text": 5}, 400, "invalid_request", "text"),
        (ADDRESS, {"text": TEXT, "seed": -1}, 400, "invalid_request", "seed"),
        (ADDRESS, {"text": "a" * 10_001}, 413, "request_too_large", "input"),
        ("/v1/text-to-speech/a/b/c", BODY, 404, "not_found", None),
    ],
)
def test_errors(
    server: RunningServer,
    path: str,
    body: dict[str, Any],
    status: int,
    code: str,
    param: str | None,
) -> None:
    answer = post(server, path, body)
    detail = answer.json()["detail"]
    assert (answer.status_code, detail["code"], detail["param"]) == (status, code, param)
    assert detail["message"]


@pytest.mark.parametrize("body", [b"[]", b"{", b"\xff", b'{"text": "\\ud800"}'])
def test_bodies_that_cannot_be_read(server: RunningServer, body: bytes) -> None:
    answer = httpx.post(f"{server.url}{ADDRESS}", content=body)
    assert (answer.status_code, answer.json()["detail"]["code"]) == (400, "invalid_request")


def test_keys(keyed: RunningServer) -> None:
    refused = get(keyed, "/v1/voices", xi_api_key="wrong")
    assert refused.status_code == 401
    assert refused.json()["detail"]["status"] == "invalid_api_key"
    assert get(keyed, "/v1/voices", xi_api_key=KEY).status_code == 200
    assert get(keyed, "/v1/user", xi_api_key=KEY).json()["user_id"].startswith("key-")


def test_lists(server: RunningServer) -> None:
    voices = get(server, "/v1/voices").json()["voices"]
    assert VOICE in {voice["voice_id"] for voice in voices}
    assert get(server, f"/v1/voices/{VOICE}").json() in voices
    assert get(server, "/v1/voices/nobody").status_code == 404
    page = get(server, "/v2/voices?page_size=2&next_page_token=2").json()
    assert page["voices"] == voices[2:4]
    assert (page["has_more"], page["next_page_token"]) == (True, "4")
    assert page["total_count"] == len(voices)


def test_models_of_both_kinds_of_clients(server: RunningServer) -> None:
    openai = get(server, "/v1/models", authorization="Bearer k").json()
    assert openai["object"] == "list"
    for headers in ({"xi_api_key": "k"}, {"x_fern_sdk_name": "elevenlabs"}):
        models = get(server, "/v1/models", **headers).json()
        assert [model["can_do_text_to_speech"] for model in models] == [True]


def test_names_of_formats() -> None:
    assert OutputFormat.parse(None) == OutputFormat(Format.MP3, 44_100, 128_000)
    assert OutputFormat.parse("mp3_22050_32") == OutputFormat(Format.MP3, 22_050, 32_000)
    assert OutputFormat.parse("opus_48000_64") == OutputFormat(Format.OPUS, 48_000, 64_000)
    assert OutputFormat.parse("ulaw_8000") == OutputFormat(Format.MULAW, 8000, None)
    for name in ("midi", "pcm", "pcm_24000_64", "pcm_1", "opus_44100", "mp3_44100_999", "mp3_x"):
        with pytest.raises(BadRequestError):
            OutputFormat.parse(name)


# -- stream-input --------------------------------------------------------------------------


def test_text_in_parts(server: RunningServer, whole: NDArray[np.int16]) -> None:
    with talker(server, f"{ADDRESS}/stream-input{PCM}&seed={SEED}") as client:
        settings = {"stability": 0.5, "speed": 1.0}
        config = {"chunk_length_schedule": [50]}
        client.say(text=" ", voice_settings=settings, generation_config=config)
        for part in TEXT.split(" "):
            client.say(text=f"{part} ", try_trigger_generation=True)
        client.say(text="")
        heard = client.until_closed()
        assert client.close_code == 1000
    assert max_difference(sound(heard), whole) <= 1
    assert heard[-1]["isFinal"] is True
    told = alignments(heard)
    assert chars(told) == f"{TEXT} "
    assert all(message["alignment"] == message["normalizedAlignment"] for message in heard)
    # Clients add the times of a message to the end of the one before.
    total = sum(a["charStartTimesMs"][-1] + a["charDurationsMs"][-1] for a in told)
    assert total == pytest.approx(len(whole) / 24, abs=1)


def test_an_unknown_voice_is_told_when_the_socket_opens(server: RunningServer) -> None:
    with talker(server, "/v1/text-to-speech/nobody/stream-input") as client:
        (error,) = client.until_closed()
        assert client.close_code == 1008
    assert error["error"] == "voice_not_found"
    assert "nobody" in error["message"]


def test_a_client_that_is_gone_ends_the_speech(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.chat, "InferCodeParams", InferCodeParams)  # whole sentences
    with talker(server, f"{ADDRESS}/stream-input{PCM}") as client:
        client.say(text=LONG * 5, flush=True)
        client.hear()
        assert eventually(lambda: server.service.admission.running > 0)  # not between two sentences
    assert is_over(server)


def test_keys_of_sockets(keyed: RunningServer) -> None:
    path = f"{ADDRESS}/stream-input{PCM}"
    with talker(keyed, path) as client:
        client.say(text=" ", xi_api_key="wrong")
        with suppress(ConnectionClosed):  # it may be closed by now
            client.say(text=TEXT, flush=True)
        (error,) = client.until_closed()
        assert (error["error"], client.close_code) == ("invalid_api_key", 1008)
    for headers, first in (({"xi-api-key": KEY}, {}), ({}, {"xi_api_key": KEY})):
        with talker(keyed, path, additional_headers=headers) as client:
            client.say(text="Yes. ", **first)
            client.say(text="")
            assert sound(client.until_closed())


class SlowSocket:
    """A socket whose client has no key, sends a text all the same, and reads nothing."""

    headers: Mapping[str, str] = {}
    query_params: Mapping[str, str] = {}
    path_params: Mapping[str, str] = {"voice": VOICE}
    client = None

    def __init__(self) -> None:
        self.was_read = asyncio.Event()
        texts = ({"text": " ", "xi_api_key": "wrong"}, {"text": TEXT, "flush": True})
        self._messages = [json.dumps(text) for text in texts]

    async def receive(self) -> dict[str, Any]:
        if not self._messages:
            self.was_read.set()
            await asyncio.Event().wait()
        return {"type": "websocket.receive", "text": self._messages.pop(0)}

    async def send_text(self, text: str) -> None:
        await asyncio.Event().wait()


def test_nothing_is_spoken_without_a_key_before_the_socket_is_closed(keyed: RunningServer) -> None:
    async def contexts() -> int:
        socket = SlowSocket()
        session = Session(
            cast(WebSocket, socket), keyed.service, Authenticator((KEY,)), is_multi=False
        )
        running = asyncio.create_task(session.run())
        await socket.was_read.wait()
        opened = len(session.contexts)
        running.cancel()
        await asyncio.wait({running})
        return opened

    assert keyed.run(contexts()) == 0


def test_pages_of_other_origins_are_refused(server: RunningServer) -> None:
    headers = {"Origin": "https://example.org"}
    with (
        pytest.raises(InvalidStatus) as caught,
        talker(server, f"{ADDRESS}/stream-input", additional_headers=headers),
    ):
        pass
    assert caught.value.response.status_code == 403
    assert b'"detail"' in bytes(caught.value.response.body)


# -- multi-stream-input --------------------------------------------------------------------


def test_contexts(server: RunningServer, whole: NDArray[np.int16]) -> None:
    path = f"{ADDRESS}/multi-stream-input{PCM}&seed={SEED}&sync_alignment=true"
    with talker(server, path) as client:
        client.say(text="")  # keeps the socket alive
        for name in "ab":
            client.say(text=" ", context_id=name, voice_settings={})
            client.say(text=TEXT, context_id=name)
            client.say(text="", context_id=name, flush=True)
            client.say(context_id=name, close_context=True)
            client.say(text="too late ", context_id=name)
        client.say(close_socket=True)
        heard = client.until_closed()
        assert client.close_code == 1000
    for name in "ab":
        own = [message for message in heard if message["contextId"] == name]
        assert max_difference(sound(own), whole) <= 1
        assert [m for m in own if m["isFinal"]] == [own[-1]]
        # With sync_alignment the times count from the beginning of the context.
        starts = [t for a in alignments(own) for t in a["charStartTimesMs"]]
        assert starts == sorted(starts)
        last = alignments(own)[-1]
        end = last["charStartTimesMs"][-1] + last["charDurationsMs"][-1]
        assert end == pytest.approx(len(whole) / 24, abs=1)


def test_sentences_of_automatic_mode_are_spoken_at_once(server: RunningServer) -> None:
    sentences = ["The lamp was lit.", "Nobody knew why."]  # as Pipecat sends them
    with talker(server, f"{ADDRESS}/multi-stream-input{PCM}&auto_mode=true") as client:
        for sentence in sentences:
            client.say(text=sentence, context_id="a")
            heard: list[dict[str, Any]] = []
            while not chars(alignments(heard)).endswith(" "):
                message = client.hear()
                assert isinstance(message, dict)
                heard.append(message)
            assert chars(alignments(heard)) == f"{sentence} "
        client.say(context_id="a", close_context=True)
        assert client.hear() == {
            "audio": None,
            "isFinal": True,
            "alignment": None,
            "normalizedAlignment": None,
            "contextId": "a",
        }


def test_errors_of_a_context_leave_the_others(server: RunningServer) -> None:
    with talker(server, f"{ADDRESS}/multi-stream-input{PCM}") as client:
        for wrong in (
            {"text": 5, "context_id": "a"},
            {"text": "Hi ", "context_id": "a", "voice_settings": {"speed": 99}},
            {"text": "Hi ", "context_id": "x" * 65},
        ):
            client.say(**wrong)
            error = client.hear()
            assert isinstance(error, dict)
            assert error["error"] == "invalid_request"
        client.connection.send("{")
        error = client.hear()
        assert isinstance(error, dict)
        assert error["code"] == 1008
        client.say(text="Yes. ", context_id="b", flush=True)
        answer = client.hear()
        assert isinstance(answer, dict)
        assert answer["contextId"] == "b"
        client.say(close_socket=True)
        client.until_closed()


def test_every_message_of_an_utterance_moves_the_clock_of_clients(server: RunningServer) -> None:
    path = f"{ADDRESS}/stream-input{PCM}&seed={SEED}"
    with talker(server, path) as client:
        client.say(text=TEXT)
        client.say(text="")
        relative = alignments(client.until_closed())
    with talker(server, f"{path}&sync_alignment=true") as client:
        client.say(text=TEXT)
        client.say(text="")
        absolute = alignments(client.until_closed())

    def ends(told: list[dict[str, Any]]) -> list[int]:
        return [a["charStartTimesMs"][-1] + a["charDurationsMs"][-1] for a in told]

    assert ends(absolute)[0] == ends(relative)[0]
    assert [b - a for a, b in pairwise(ends(absolute))] == ends(relative)[1:]
