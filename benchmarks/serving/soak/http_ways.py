"""Ways to ask over HTTP: files, streams, events, batches and scripts."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import httpx

from .requests import PATIENCE, Ask, Heard, Place, Request, UnansweredError, Way

Read = Callable[[httpx.Response, Heard], Awaitable[None]]
Fields = Callable[[Request], Mapping[str, Any]]

_SPEECH, _SCRIPTS = "/v1/audio/speech", "/v1/audio/scripts"
_RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}


def client() -> httpx.AsyncClient:
    """Return a client for one request, on a connection of its own."""
    return httpx.AsyncClient(timeout=PATIENCE, verify=False, trust_env=False)


def _posted(path: str, fields: Fields, read: Read) -> Way:
    """Return how a body of JSON is sent to a path, which may have a place for the voice."""

    async def ask(place: Place, request: Request, heard: Heard) -> None:
        address = place.url + path.format(voice=request.voice)
        async with (
            client() as http,
            http.stream("POST", address, json=dict(fields(request))) as answer,
        ):
            await _check(answer)
            await read(answer, heard)

    return Way("http", ask)


def _got(path: str, query: Fields) -> Way:
    """Return how a path is asked with all fields in the query."""

    async def ask(place: Place, request: Request, heard: Heard) -> None:
        address = f"{place.url}{path}?{urlencode(query(request))}"
        async with client() as http, http.stream("GET", address) as answer:
            await _check(answer)
            await _read_bytes(answer, heard)

    return Way("http", ask)


async def _deepgram(place: Place, request: Request, heard: Heard) -> None:
    query = {"model": request.voice, "seed": request.seed, "encoding": "linear16"}
    address = f"{place.url}/v1/speak?{urlencode(query)}&container=none"
    async with (
        client() as http,
        http.stream("POST", address, json={"text": request.text}) as answer,
    ):
        await _check(answer)
        await _read_bytes(answer, heard)


async def _script(place: Place, request: Request, heard: Heard) -> None:
    """Send a script, follow its events, take its file, and delete it."""
    body = {
        "script": request.text,
        "format": "plain",
        "response_format": "wav",
        "voice": request.voice,
        "seed": request.seed,
    }
    # A connection for each step: the server closes one that is silent for 10 s after an answer,
    # which a slow client may still be reading then.
    async with (
        client() as http,
        http.stream("POST", place.url + _SCRIPTS, json=body) as answer,
    ):
        await _check(answer)
        address = f"{place.url}{_SCRIPTS}/{json.loads(await answer.aread())['id']}"
    async with client() as http, http.stream("GET", f"{address}/events") as events:
        await _check(events)
        async for _ in events.aiter_raw():
            pass
    async with client() as http, http.stream("GET", f"{address}/audio") as file:
        await _check(file)
        await _read_bytes(file, heard)
    async with client() as http:
        await http.delete(address)


async def _check(answer: httpx.Response) -> None:
    if answer.status_code not in (200, 202):
        await answer.aread()
        raise UnansweredError(answer.text, answer.status_code)


async def _read_bytes(answer: httpx.Response, heard: Heard) -> None:
    async for part in answer.aiter_raw():
        heard.hear(part)


async def _read_batch(answer: httpx.Response, heard: Heard) -> None:
    for item in json.loads(await answer.aread())["data"]:
        if item["error"] is not None:
            raise UnansweredError(json.dumps(item["error"]))
        heard.hear(base64.b64decode(item["audio"]))


def _read_objects(sound: str, prefix: str, last: str | None) -> Read:
    """Return how objects of JSON are read, each in a line.

    Args:
        sound: the field with sound in base64.
        prefix: of the lines with objects.
        last: ``type`` of the last object; ``None`` where objects have no types.
    """

    async def read(answer: httpx.Response, heard: Heard) -> None:
        is_whole = last is None
        async for line in answer.aiter_lines():
            if not line or not line.startswith(prefix):
                continue
            told = json.loads(line.removeprefix(prefix))
            if told.get("error") or told.get("type") == "error":
                raise UnansweredError(json.dumps(told))
            if isinstance(told.get(sound), str):
                heard.hear(base64.b64decode(told[sound]))
            is_whole = is_whole or told.get("type") == last
        if not is_whole:
            raise UnansweredError("the events ended before the sound did")

    return read


def _plain(name: str, **more: Any) -> Fields:
    """Return the fields of a body whose text is in the field ``name``."""
    return lambda asked: {name: asked.text, "voice": asked.voice, "seed": asked.seed, **more}


def _pcm(**more: Any) -> Fields:
    return _plain("input", response_format="pcm", **more)


def _batch(asked: Request) -> Mapping[str, Any]:
    items = [{"input": asked.text, "seed": asked.seed + number} for number in range(2)]
    return {"response_format": "wav", "voice": asked.voice, "items": items}


def _file(name: str) -> Ask:
    return _posted(_SPEECH, _plain("input", response_format=name), _read_bytes).ask


WAYS: Mapping[str, Way] = {
    "REST, pcm": _posted(_SPEECH, _pcm(), _read_bytes),
    "REST, whole wav": _posted(
        _SPEECH, _plain("input", response_format="wav", stream=False), _read_bytes
    ),
    "REST, mp3": Way("http", _file("mp3")),
    "REST, opus": Way("http", _file("opus")),
    "REST, flac": Way("http", _file("flac")),
    "REST, events": _posted(
        _SPEECH,
        _pcm(stream_format="sse", timestamp_granularities=["word"]),
        _read_objects("audio", "data: ", "speech.audio.done"),
    ),
    "REST, batch": _posted(f"{_SPEECH}/batch", _batch, _read_batch),
    "REST, captions": _posted(
        "/dev/captioned_speech", _pcm(stream=True), _read_objects("audio", "", None)
    ),
    "REST, /tts": _got("/tts", lambda asked: {**_plain("text")(asked), "format": "wav"}),
    "REST, script": Way("http", _script),
    "ElevenLabs": _posted(
        "/v1/text-to-speech/{voice}/stream?output_format=pcm_24000",
        lambda asked: {"text": asked.text, "seed": asked.seed},
        _read_bytes,
    ),
    "Deepgram": Way("http", _deepgram),
    "Cartesia": _posted("/tts/bytes", _plain("transcript", output_format=_RAW), _read_bytes),
    "Cartesia, events": _posted(
        "/tts/sse",
        _plain("transcript", output_format=_RAW),
        _read_objects("data", "data: ", "done"),
    ),
}
