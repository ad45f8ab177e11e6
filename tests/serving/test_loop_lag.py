"""The event loop stands still for nobody's text: it is read in pieces, or in another process."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast
from urllib.parse import quote, urlencode

import httpx
import numpy as np
import pytest
import riva.client
import soundfile
from fastapi import APIRouter, FastAPI, Request
from starlette.types import Message, Receive, Scope, Send

from ChatTTS.errors import ConfigError
from ChatTTS.longform import subprocess_reader
from ChatTTS.longform.script import Script, ScriptError
from ChatTTS.longform.subprocess_reader import (
    Reading,
    ScriptTooLongError,
    most_lines,
    read_bounded,
    read_in_subprocess,
)
from ChatTTS.serving.encoding.base64_blocks import from_base64, to_base64
from ChatTTS.serving.errors import RequestTooLargeError
from ChatTTS.serving.http import middleware
from ChatTTS.serving.http.middleware import BodyMiddleware
from ChatTTS.serving.observe.loop_lag import quick_turns, watch_loop
from ChatTTS.serving.observe.metrics import ServerMetrics
from ChatTTS.serving.protocols.rest.app import most_parts
from ChatTTS.serving.protocols.rest.long_bodies import long_body_route
from ChatTTS.serving.protocols.rest.openai_speech import FORMATS
from ChatTTS.serving.settings import Limits
from ChatTTS.text.lexicon import Lexicon

from ..support.lag_tools import watched_server
from ..support.protocol_clients import PROTOCOL_CLIENTS, by_mcp
from ..support.server_tools import WholeServer

READING = Reading("a.txt", None, 1 << 20, False, None, None, 1500, 1000, 1e6)


def test_the_lag_of_the_loop_is_a_metric() -> None:
    metrics = ServerMetrics()

    async def late() -> None:
        task = asyncio.create_task(watch_loop(metrics.observe_loop_lag))
        await asyncio.sleep(0.02)
        time.sleep(0.3)
        await asyncio.sleep(0.02)
        task.cancel()

    asyncio.run(late())
    found = metrics.registry.get_sample_value
    late_ones = found("chattts_loop_lag_seconds_count") or 0.0
    assert late_ones > (found("chattts_loop_lag_seconds_bucket", {"le": "0.2"}) or 0.0)


def test_threads_take_short_turns_while_the_server_runs() -> None:
    before = sys.getswitchinterval()
    with quick_turns():
        assert sys.getswitchinterval() <= 0.001
    assert sys.getswitchinterval() == before


@pytest.mark.parametrize("size", [0, 1, 2, 3, 49_151, 49_152, 49_153, 200_000])
def test_base64_in_blocks_is_base64(size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))
    text = base64.b64encode(data).decode()
    assert to_base64(data) == text
    assert from_base64(text) == data


@pytest.mark.parametrize("text", ["a", "é" * 8, "QUI=" + "QUJD" * 30_000, "AA\n=" * 30_000])
def test_what_is_no_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_base64(text)


def test_an_entry_that_is_far_too_long_is_not_read() -> None:
    with pytest.raises(ConfigError, match="the limit is 200"):
        Lexicon.of({"a": "b " * 1_000_000})


# -- bodies --------------------------------------------------------------------------------------


def delivered(body: bytes, kind: str = "application/json", parts: int = 10) -> list[bytes]:
    """Return the messages in which a route gets a body."""
    got: list[bytes] = []

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        has_more = True
        while has_more:
            message = await receive()
            got.append(message["body"])
            has_more = message["more_body"]

    asyncio.run(BodyMiddleware(route, lambda path: 1 << 24, lambda path: parts, 60, 60)(
        {"type": "http", "path": "/", "headers": [(b"content-type", kind.encode())]},
        sender_of(body), ignored))  # fmt: skip
    return got


def sender_of(body: bytes) -> Receive:
    async def receive() -> Message:
        if sent:
            await asyncio.Event().wait()
        sent.append(True)
        return {"type": "http.request", "body": body, "more_body": False}

    sent: list[bool] = []
    return receive


async def ignored(message: Message) -> None:
    pass


@pytest.mark.parametrize("sign", [",", "[", "{", "&", quote("😀")])
def test_bodies_with_many_values_are_refused(sign: str) -> None:
    assert delivered(sign.encode() * 10)
    with pytest.raises(RequestTooLargeError):
        delivered(sign.encode() * 11)


def test_the_longest_text_of_any_language_may_be_a_form() -> None:
    limits = Limits()
    for letter in "你😀":
        form = urlencode({"text": letter * limits.characters}).encode()
        kind = "application/x-www-form-urlencoded"
        assert delivered(form, kind, most_parts("/tts", limits)) == [form]


def test_bodies_with_many_escapes_are_refused() -> None:
    assert delivered(json.dumps("\u4f60" * 10_000).encode())
    with pytest.raises(RequestTooLargeError):
        delivered(json.dumps("\n" * 10_000).encode())


def test_a_form_with_files_is_parsed_in_pieces() -> None:
    body = bytes(1 << 20)
    pieces = delivered(body, "multipart/form-data; boundary=x")
    assert b"".join(pieces) == body
    assert max(map(len, pieces)) <= 1 << 16
    assert delivered(b"", "multipart/form-data; boundary=x") == [b""]


class Turns:
    """The event loop's turns while five long bodies come at once."""

    def __init__(self) -> None:
        self.turn, self.seen = 0, list[int]()

    def note(self) -> None:
        self.seen.append(self.turn)

    async def bring(self, route: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        layer = BodyMiddleware(route, lambda path: 1 << 24, lambda path: 10, 60, 60)
        scope = {"type": "http", "path": "/", "headers": []}
        requests = [layer(scope, sender_of(b"x" * 100_000), ignored) for _ in range(5)]
        waiting = asyncio.ensure_future(asyncio.gather(*requests))
        while not waiting.done():
            await asyncio.sleep(0)
            self.turn += 1


def test_long_bodies_are_parsed_in_turns_of_the_loop_of_their_own() -> None:
    turns = Turns()

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        turns.note()

    asyncio.run(turns.bring(route))
    assert len(set(turns.seen)) == 5


def test_long_bodies_are_joined_in_turns_of_the_loop_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns()
    pieces = middleware._pieces

    def noted(*given: Any) -> AsyncIterator[Message]:
        turns.note()
        return pieces(*given)

    monkeypatch.setattr(middleware, "_pieces", noted)

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    asyncio.run(turns.bring(route))
    assert len(set(turns.seen)) == 5


def test_long_bodies_are_joined_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system has to find the memory of such a body, which takes up to 30 ms."""
    threads: list[threading.Thread] = []

    def noted(parts: Sequence[bytes]) -> bytes:
        threads.append(threading.current_thread())
        return b"".join(parts)

    monkeypatch.setattr(middleware, "_joined", noted)
    for body in (bytes(100), bytes(1 << 20)):
        assert delivered(body) == [body]
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


def test_long_bodies_are_not_copied() -> None:
    """A body that is sent to the route as one object is that object there."""
    got: list[bytes] = []
    app = FastAPI()
    router = APIRouter(route_class=long_body_route(cast(Any, None)))

    @router.post("/")
    async def take(request: Request) -> None:
        got.append(await request.body())

    app.include_router(router)
    body = bytes(1 << 20)
    scope = {"type": "http", "method": "POST", "path": "/", "headers": [], "query_string": b""}
    asyncio.run(app({**scope, "state": {}}, sender_of(body), ignored))
    assert got[0] is body


# -- scripts -------------------------------------------------------------------------------------

SCRIPTS = {
    "plain": "One.\n\nTwo [pause:1s] three. [voice:bob] Four.",
    "markdown": "# Chapter\n\nText with *marks*.\n\n## Next\n\n```\ncode\n```\n\nMore.",
    "dialogue": "Anna: Hello.\nBob: Who is there?",
    "cues": "1\n00:00:01,000 --> 00:00:02,500\nHello.\n\n2\n00:00:03,000 --> 00:00:04,000\nYes.\n",
    "ssml": '<speak>A<mark name="m"/>b <prosody rate="120%">fast</prosody><odd>!</odd></speak>',
    "lines": '{"text": "a", "style": {"speed": 5, "oral": 1}, "pause": 0.25, "voice": "x"}',
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SCRIPTS)
def test_another_process_reads_the_script_that_this_one_would(kind: str) -> None:
    reading = Reading("a", kind, 1 << 20, False, None, None, 1500, 1000, 1e6)
    data = SCRIPTS[kind].encode()
    script = read_in_subprocess(data, reading)
    assert script == read_bounded(data, reading)
    assert isinstance(script, Script)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"\xff", ScriptError), (b"[pause:x]", ScriptError), (b"a" * 2000, ScriptTooLongError),
     (b"a\n\n" * 1001, ScriptTooLongError), (b"...", ScriptError)],
)  # fmt: skip
def test_its_errors_are_told_with_their_place(data: bytes, kind: type[ScriptError]) -> None:
    with pytest.raises(ScriptError) as here:
        read_bounded(data, READING)
    with pytest.raises(ScriptError) as there:
        read_in_subprocess(data, READING)
    assert type(there.value) is type(here.value) is kind
    assert (str(there.value), there.value.place) == (str(here.value), here.value.place)


@pytest.mark.slow
def test_a_dialogue_may_have_short_lines() -> None:
    reading = Reading("a.txt", "dialogue", 1 << 20, False, None, None, 1500, 20_000, 1e6)
    data = "\n".join(["Anna: Yes.", "Bob: No."] * 2500).encode()
    assert len(read_bounded(data, reading).lines) == 5000
    assert most_lines(20_000) == 10_000
    assert most_lines(1_000_000) == 100_000  # a kilobyte each
    assert most_lines(10_000_000) == 100_000


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that takes gigabytes ends, and the script is refused."""
    program = subprocess_reader._PROGRAM.replace(
        "main()",
        "import ChatTTS.longform.subprocess_reader as a; read = a.read_bounded; "
        "a.read_bounded = lambda *given: (bytes(3 << 30), read(*given))[1]; main()",
    )
    monkeypatch.setattr(subprocess_reader, "_PROGRAM", program)
    with pytest.raises(ScriptTooLongError, match="too much memory"):
        read_in_subprocess(b"a", READING)


# -- the whole server ----------------------------------------------------------------------------

MOST = 14 << 20
SPEECH, VOICES, JOBS = "/v1/audio/speech", "/v1/audio/voices", "/v1/audio/scripts"
FORM = {"content-type": "multipart/form-data; boundary=X"}
FIELD = b'--X\r\nContent-Disposition: form-data; name="%s"; filename="a.txt"\r\n\r\n'


def filled(before: bytes, part: bytes, after: bytes, size: int = MOST) -> bytes:
    return before + part * ((size - len(before) - len(after)) // len(part)) + after


HOSTILE = {
    "a recording": (SPEECH, filled(b'{"input":"a","ref_text":"a","ref_audio":"', b"QUJD", b'"}')),
    "escapes": (SPEECH, filled(b'{"input":"', b"\\n", b'"}')),
    "blanks": (SPEECH, filled(b"{", b" ", b"}")),
    "digits": (SPEECH, filled(b'{"input":"a","seed":', b"1", b"}")),
    "a text": (SPEECH, filled(b'{"input":"', b"a", b'"}')),
    "a voice": (SPEECH, filled(b'{"input":"a","voice":"', b"a", b'"}')),
    "a saying": (SPEECH, filled(b'{"input":"a","lexicon":{"a":"', b"a ", b'"}}')),
    "SSML": (SPEECH, filled(b'{"input":"<speak>', b"<s>a</s>", b'</speak>"}')),
    "short SSML": (SPEECH, filled(b'{"input":"<speak>', b"<s>a</s>", b'</speak>"}', 80_000)),
    "objects": (SPEECH + "/batch", filled(b'{"items":[', b"{},", b"{}]}", 1 << 20)),
    "an address": ("/tts", b"&" * (1 << 20)),
    "a form": (VOICES, filled(FIELD % b"audio_sample", b"\r\n--", b"\r\n--X--", 10 << 20)),
    "a file": (JOBS, filled(FIELD % b"file", b"a\n", b"\r\n--X--", 7 << 20)),
    "cues": (JOBS, filled(b'{"format":"srt","script":"', b"1\\n", b'"}', 2 << 20)),
    "lines": (JOBS, filled(b'{"script":[', b'{"text":"a"},', b'{"text":"a"}]}', 2 << 20)),
}  # fmt: skip


@pytest.mark.slow
def test_no_request_imports_a_module() -> None:
    """An import holds Python's lock, and the first client to need it would delay all others."""
    recording = io.BytesIO()
    soundfile.write(recording, 0.1 * np.sin(np.arange(48_000) / 20), 24_000, format="WAV")
    spoken = {"input": "Hello.", "seed": 1}
    reference = base64.b64encode(recording.getvalue()).decode()
    bodies = [
        *({**spoken, "response_format": name, "sample_rate": 48_000} for name in FORMATS),
        {**spoken, "input": "<speak>Hello.<break time='0.1s'/></speak>", "speed": 1.2},
        {**spoken, "lexicon": {"Hello": "good day"}, "stream": False},
        {**spoken, "ref_audio": reference, "ref_text": "Hello."},
        {**spoken, "timestamp_granularities": ["word"], "refine": True},
        {**spoken, "input": [1]},
    ]
    with watched_server(wyoming_port=0) as server:
        server.imported()
        for ask in PROTOCOL_CLIENTS:
            if ask is not by_mcp:  # it speaks within the test's own process
                ask(cast(WholeServer, server), "Hello.", "alloy", 1)
        auth = riva.client.Auth(uri=server.grpc_address)
        riva.client.SpeechSynthesisService(auth).synthesize("Hello.", sample_rate_hz=24_000)
        auth.channel.close()
        with httpx.Client(base_url=server.url, timeout=100) as client:
            for body in bodies:
                client.post(SPEECH, json=body)
            client.post(SPEECH + "/batch", json={"items": [spoken]})
            client.post(JOBS, json={"script": "Hello."})
            sample = {"audio_sample": recording.getvalue()}
            client.post(
                VOICES, files=sample, data={"name": "a", "ref_text": "Hello.", "consent": "a"}
            )
            for path in ("/", "/metrics", "/openapi.json", "/nothing", VOICES, JOBS):
                client.get(path)
        assert server.imported() == []


@pytest.mark.slow
def test_nothing_that_is_posted_stops_the_loop() -> None:
    kinds = {"/tts": {"content-type": "application/x-www-form-urlencoded"}, VOICES: FORM}
    with watched_server() as server, httpx.Client(base_url=server.url, timeout=100) as client:
        quiet = server.gap_of(lambda: client.post(SPEECH, json={"input": "Hello."}))

        def send(path: str, body: bytes) -> None:
            kind = FORM if body.startswith(b"--X") else kinds.get(path)
            kind = kind or {"content-type": "application/json"}
            with client.stream("POST", path, content=body, headers=kind) as answer:
                assert answer.status_code < 500

        gaps = {
            name: server.gap_of(partial(send, path, body)) for name, (path, body) in HOSTILE.items()
        }
        # Texts of the allowed length, many at once: they are prepared beside the loop.
        text = json.dumps({"input": "Room 12, 5 May: $3.20. " * 430}).encode()
        with ThreadPoolExecutor(8) as threads:

            def send_all() -> None:
                list(threads.map(send, [SPEECH] * 8, [text] * 8))

            gaps["texts"] = server.gap_of(send_all)
            recordings = [HOSTILE["a recording"]] * 8

            def record_all() -> None:
                list(threads.map(lambda given: send(*given), recordings))

            gaps["recordings"] = server.gap_of(record_all)
    # On a quiet machine 50 ms; other work of the machine adds its own gaps to each.
    assert {name: gap for name, gap in gaps.items() if gap > 0.05 + 5 * quiet} == {}
