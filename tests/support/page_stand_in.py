"""A stand-in for the server behind the web page, whose answers a test sets."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from ChatTTS.audio.marking import info_chunk
from ChatTTS.config.mark import Mark
from ChatTTS.serving.protocols.rest.operations import PUBLIC
from ChatTTS.serving.protocols.rest.page import page_routes
from ChatTTS.text.tag_names import named_tags

RATE = 24000
TAGS = ("[uv_break]", "[llbreak]", "[laugh]", *(f"[speed_{n}]" for n in range(10)))
Answer = Callable[[dict[str, Any], Request], Awaitable[Response]]


def tone(seconds: float) -> bytes:
    """A tone that swells, s16le."""
    n = np.arange(int(seconds * RATE))
    samples = 0.6 * np.sin(2 * np.pi * 220 * n / RATE) * np.linspace(0.2, 1, len(n))
    return (samples * 32767).astype("<i2").tobytes()


def refusal(
    status: int, message: str, code: str | None = None, param: str | None = None, **headers: str
) -> JSONResponse:
    body = {"error": {"message": message, "type": "t", "param": param, "code": code}}
    return JSONResponse(body, status, headers={k.replace("_", "-"): v for k, v in headers.items()})


def event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


async def as_async(pieces: Any) -> AsyncIterator[bytes]:
    """Yield the pieces of a sync or async iterator; an async one is closed with this one."""
    if not hasattr(pieces, "aclose"):
        for piece in pieces:
            yield piece
        return
    try:
        async for piece in pieces:
            yield piece
    finally:
        await pieces.aclose()


class StandIn:
    """The routes that the page requests of a server; a test changes the fields."""

    def __init__(self) -> None:
        self.url = ""
        self.app: Any = self.make_app()
        self.reset()

    def reset(self) -> None:
        self.sound = tone(0.5)
        self.finish_reason = "stop"
        self.key: str | None = None
        self.voices: list[dict[str, Any]] = [{"id": "anna", "name": "Anna"}]
        self.default: str | None = "anna"
        self.language_defaults: dict[str, str] = {}
        self.tags = [asdict(tag) for tag in named_tags(TAGS)]
        mark = base64.b64encode(info_chunk(Mark())).decode()
        self.status: dict[str, Any] = {
            "running": 0,
            "waiting": 0,
            "limit": 4,
            "wav_mark": mark,
        }
        self.words: list[dict[str, Any]] = []  # of requests that ask for them
        self.cues: list[dict[str, Any]] = []
        self.faults: list[dict[str, Any]] = []  # of requests with a guard
        self.left_out: list[str] = []
        self.answer: Answer = self.speak
        self.spoken: list[dict[str, Any]] = []  # bodies of requests for speech
        self.uploads: list[dict[str, Any]] = []
        self.asked_status = 0
        self.left = threading.Event()  # a client went away while it was answered
        self.go_on = threading.Event()

    async def speak(self, body: dict[str, Any], request: Request) -> Response:
        """Answer with the whole sound, in pieces of an odd number of bytes."""
        sound = self.sound
        return self.stream((sound[i : i + 4801] for i in range(0, len(sound), 4801)), body)

    def stream(self, pieces: Any, body: dict[str, Any]) -> Response:
        """Answer as the server does: an event for every piece, and one for the end."""
        assert body["stream_format"] == "sse"
        headers = {
            "x-sample-rate": str(RATE),
            "x-seed": str(body.get("seed", 1234)),
            "x-voice": quote(body.get("voice", self.default or "")),
        }
        if self.left_out:
            headers["x-left-out"] = ",".join(map(quote, self.left_out))
        asked = body.get("timestamp_granularities") == ["word"]
        faults = self.faults if body.get("guard") == "report" else []
        events = self.events(pieces, self.words if asked else None, faults)
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    async def events(
        self, pieces: Any, words: list[dict[str, Any]] | None, faults: list[dict[str, Any]]
    ) -> AsyncIterator[str]:
        """Yield the events; those after the first give one word each, or what is wrong with it."""
        left, wrong = list(words or ()), list(faults)
        async for piece in as_async(pieces):
            audio = base64.b64encode(piece).decode("ascii")
            yield event({"type": "speech.audio.delta", "audio": audio})
            if left:
                yield event({"type": "speech.audio.delta", "audio": "", "words": [left.pop(0)]})
            elif wrong:
                yield event({"type": "speech.audio.delta", "audio": "", "faults": [wrong.pop(0)]})
        done: dict[str, Any] = {"type": "speech.audio.done", "finish_reason": self.finish_reason}
        if self.left_out:
            done |= {"left_out": self.left_out}
        yield event(done if words is None else done | {"cues": self.cues})

    async def endless(self, body: dict[str, Any], request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield self.sound
                    await asyncio.sleep(0.1)
            finally:
                self.left.set()

        return self.stream(pieces(), body)

    async def halting(self, body: dict[str, Any], request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield self.sound[: RATE // 2]
            while not self.go_on.is_set():
                await asyncio.sleep(0.01)
            yield self.sound[RATE // 2 :]

        return self.stream(pieces(), body)

    async def breaking(self, body: dict[str, Any], request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield self.sound
            while not self.go_on.is_set():
                await asyncio.sleep(0.01)
            raise ConnectionResetError("as if the engine were gone")

        return self.stream(pieces(), body)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path, headers = scope["path"], dict(scope["headers"])
        allowed = not self.key or headers.get(b"authorization") == f"Bearer {self.key}".encode()
        answer = self.app
        if path.startswith("/v1") and path not in PUBLIC and not allowed:
            answer = refusal(401, "Give an API key.", "invalid_api_key")
        await answer(scope, receive, send)

    def make_app(self) -> FastAPI:
        app = FastAPI()
        app.include_router(page_routes())  # with the server's own policy

        @app.get("/v1/status")
        async def status() -> dict[str, Any]:
            self.asked_status += 1
            return self.status

        @app.get("/v1/audio/voices")
        async def voices() -> dict[str, Any]:
            return {
                "voices": self.voices,
                "default": self.default,
                "language_defaults": self.language_defaults,
            }

        @app.get("/v1/audio/tags")
        async def tags() -> dict[str, Any]:
            return {"tags": self.tags}

        @app.post("/v1/audio/voices")
        async def upload(request: Request) -> Response:
            form = await request.form()
            fields: dict[str, Any] = dict(form)
            sample = fields.pop("audio_sample", None)
            if sample is not None:
                fields |= {"file": sample.filename, "audio_sample": await sample.read()}
            self.uploads.append(fields)
            if fields["name"] == "anna":
                return refusal(400, "'anna' is a voice of this server", "invalid_request", "name")
            name, kind = fields["name"], "speaker" if sample is None else "sample"
            self.voices.append({"id": name, "name": name, "kind": kind, "uploaded": True})
            return JSONResponse({"id": name})

        @app.delete("/v1/audio/voices/{name}")
        async def delete(name: str) -> Response:
            self.voices = [voice for voice in self.voices if voice["id"] != name]
            return Response(status_code=204)

        @app.post("/v1/audio/speech")
        async def speech(request: Request) -> Response:
            body = await request.json()
            self.spoken.append(body)
            if body["response_format"] != "pcm":
                return Response(b"bytes of " + body["response_format"].encode())
            return await self.answer(body, request)

        return app
