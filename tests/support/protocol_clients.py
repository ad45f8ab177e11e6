"""One request over each interface of our own, and over each protocol."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from mcp import Client
from websockets.sync.client import connect
from wyoming.audio import AudioChunk
from wyoming.client import AsyncTcpClient
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

from ChatTTS.serving.protocols.mcp import make_server
from ChatTTS.serving.protocols.mcp.folder import ToolFolder

from .server_tools import WholeServer, decoded
from .serving_tools import PATIENCE
from .vendor_tools import talker
from .websocket_tools import speaker

ProtocolClient = Callable[[WholeServer, str, str, int], bytes]
"""Returns the PCM of a text, spoken by a voice with a seed."""
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}


def parts_of(text: str) -> list[str]:
    """Return a text in parts of a few characters, as a language model writes it."""
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def posted(server: WholeServer, path: str, body: dict[str, Any]) -> httpx.Response:
    answer = httpx.post(f"{server.url}{path}", json=body, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return answer


# ------------------------------------------------------------------ our own, with further fields


def by_rest(server: WholeServer, text: str, voice: str, seed: int, **fields: Any) -> bytes:
    body = {"input": text, "voice": voice, "seed": seed, "response_format": "pcm", **fields}
    return posted(server, "/v1/audio/speech", body).content


def by_tts(server: WholeServer, text: str, voice: str, seed: int, **fields: Any) -> bytes:
    query = {"text": text, "voice": voice, "seed": seed, "format": "wav", **fields}
    answer = httpx.get(f"{server.url}/tts", params=query, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return decoded(answer.content)[0].astype("<i2").tobytes()


def by_websocket(server: WholeServer, text: str, voice: str, seed: int, **fields: Any) -> bytes:
    with speaker(server) as socket:
        socket.say("session.config", voice=voice, seed=seed, **fields)
        for part in parts_of(text):
            socket.say("input.text", text=part)
        socket.say("input.flush")
        socket.until("audio.done")
        return socket.samples().tobytes()


def by_riva(server: WholeServer, text: str, voice: str, seed: int, **fields: Any) -> bytes:
    with server.riva_client() as client:
        return bytes(client.synthesize(text, voice, **_riva_settings(seed, fields)).audio)


def by_riva_stream(server: WholeServer, text: str, voice: str, seed: int, **fields: Any) -> bytes:
    with server.riva_client() as client:
        parts = client.synthesize_online(text, voice, **_riva_settings(seed, fields))
        return b"".join(part.audio for part in parts)


def _riva_settings(seed: int, fields: dict[str, Any]) -> dict[str, Any]:
    given = {"seed": str(seed), **{name: str(value) for name, value in fields.items()}}
    return {"sample_rate_hz": 24_000, "custom_configuration": given}


OWN_CLIENTS = (by_rest, by_tts, by_websocket, by_riva, by_riva_stream)


# ------------------------------------------------------------------ further forms, and protocols


def by_events(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    fields = {"input": text, "voice": voice, "seed": seed}
    body = {**fields, "response_format": "pcm", "stream_format": "sse"}
    lines = posted(server, "/v1/audio/speech", body).text.splitlines()
    events = [json.loads(line[len("data: ") :]) for line in lines if line]
    return b"".join(base64.b64decode(e["audio"]) for e in events if "audio" in e)


def by_captions(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    body = {"input": text, "voice": voice, "seed": seed, "response_format": "pcm", "stream": False}
    answer = posted(server, "/dev/captioned_speech", {**body, "return_timestamps": False})
    return base64.b64decode(answer.json()["audio"])


def by_realtime(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    with talker(server, f"/v1/realtime?intent=synthesis&seed={seed}") as client:
        words = {"input_text_synthesis": {"voice_name": voice}}
        client.say(type="synthesize_session.update", session=words)
        for part in parts_of(text):
            client.say(type="input_text.append", text=part)
        client.say(type="input_text.done")
        sound = b""
        while True:
            message = client.hear()
            assert isinstance(message, dict)
            assert message["type"] != "error", message
            if message["type"] == "conversation.item.speech.completed":
                return sound
            sound += base64.b64decode(message.get("audio", ""))


def by_wyoming(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    return _by_wyoming(
        server, Synthesize(text, SynthesizeVoice(name=voice), context={"seed": seed})
    )


def by_wyoming_in_parts(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    start = SynthesizeStart(SynthesizeVoice(name=voice), context={"seed": seed})
    return _by_wyoming(server, start, *map(SynthesizeChunk, parts_of(text)), SynthesizeStop())


def by_mcp(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    async def ready() -> Any:
        return server.service

    async def talk(folder: ToolFolder) -> Any:
        fields = {"text": text, "file": "a.wav", "voice": voice, "seed": seed}
        async with Client(make_server(ready, folder, may_play=False)) as client:
            return await client.call_tool("save", fields)

    with TemporaryDirectory() as name:
        answer = server.run(talk(ToolFolder(Path(name))))
        assert not answer.is_error, answer.content
        sound, _ = decoded((Path(name) / "a.wav").read_bytes())
    return sound.astype("<i2").tobytes()


def by_elevenlabs(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    path = f"/v1/text-to-speech/{voice}/stream?output_format=pcm_24000"
    return posted(server, path, {"text": text, "seed": seed}).content


def by_elevenlabs_in_parts(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    path = f"/v1/text-to-speech/{voice}/stream-input?output_format=pcm_24000&seed={seed}"
    with talker(server, path) as client:
        for part in [*parts_of(text), ""]:
            client.say(text=part)
        return b"".join(base64.b64decode(m["audio"] or "") for m in client.until_closed())


def by_deepgram(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    path = f"/v1/speak?model={voice}&seed={seed}&encoding=linear16&container=none"
    return posted(server, path, {"text": text}).content


def by_deepgram_in_parts(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    url = f"{server.url.replace('http', 'ws', 1)}/v1/speak?model={voice}&seed={seed}"
    with connect(url, proxy=None, open_timeout=PATIENCE) as client:
        for part in parts_of(text):
            client.send(json.dumps({"type": "Speak", "text": part}))
        client.send(json.dumps({"type": "Close"}))
        return b"".join(frame for frame in client if isinstance(frame, bytes))


def by_cartesia(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    body = {"transcript": text, "voice": voice, "seed": seed, "output_format": RAW}
    return posted(server, "/tts/bytes", body).content


def by_cartesia_in_parts(server: WholeServer, text: str, voice: str, seed: int) -> bytes:
    fields = {"voice": voice, "seed": seed, "output_format": RAW, "context_id": "a"}
    with talker(server, "/tts/websocket") as client:
        for part in parts_of(text):
            client.say(transcript=part, **{"continue": True}, **fields)
        client.say(transcript="", **{"continue": False}, **fields)
        sound = b""
        while True:
            message = client.hear()
            assert isinstance(message, dict)
            assert message["type"] != "error", message
            if message["type"] == "done":
                return sound
            sound += base64.b64decode(message.get("data", ""))


def _by_wyoming(server: WholeServer, *events: Any) -> bytes:
    assert server.wyoming_port is not None
    port = server.wyoming_port
    last = SynthesizeStopped if len(events) > 1 else None

    async def talked() -> bytes:
        sound = b""
        async with AsyncTcpClient("127.0.0.1", port) as client:
            for event in events:
                await client.write_event(event.event())
            while True:
                heard = await client.read_event()
                assert heard is not None
                assert heard.type != "error", heard.data
                if AudioChunk.is_type(heard.type):
                    sound += AudioChunk.from_event(heard).audio
                if heard.type == "audio-stop" if last is None else last.is_type(heard.type):
                    return sound

    return asyncio.run(asyncio.wait_for(talked(), PATIENCE))


PROTOCOL_CLIENTS: tuple[ProtocolClient, ...] = (
    by_events,
    by_captions,
    by_realtime,
    by_wyoming,
    by_wyoming_in_parts,
    by_mcp,
    by_elevenlabs,
    by_elevenlabs_in_parts,
    by_deepgram,
    by_deepgram_in_parts,
    by_cartesia,
    by_cartesia_in_parts,
)
