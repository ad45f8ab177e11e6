"""Measure how much later the first sound comes over each protocol than over the plain WebSocket.

    python -m benchmarks.serving.protocols --json out.json

Starts the whole server in a process of its own, with the bundled voice, and asks every protocol for
the same seeded sentence by turns. Time runs from sending the text on a connection that is open to
the first sound. README.md explains the figures.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from websockets.asyncio.client import ClientConnection, connect

from ..common.command import check_at_least_one, new_parser, origin, write_json
from .process import ServerProcess, free_ports

TEXT = "I would like a cup of tea, please."
VOICE = "edith"
PLAIN = "WebSocket"
_WARM_UP = 2  # rounds
_PAUSE_SECONDS = 0.1  # so that threads of one measurement have ended when the next one begins
_RATE = 24_000
_RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": _RATE}

Ask = Callable[[int], Awaitable[float]]
"""Returns the seconds to the first sound of the sentence with a seed, after all of it has come."""


@dataclass(frozen=True)
class SocketWay:
    """How a protocol on a WebSocket is asked.

    Attributes:
        path: with a place for the seed.
        settings: returns the messages that are sent before the time runs.
        text: returns those with the sentence.
        is_sound, is_end: whether a message has sound, or ends the speech.
    """

    path: str
    settings: Callable[[int], Sequence[Mapping[str, Any]]]
    text: Callable[[int], Sequence[Mapping[str, Any]]]
    is_sound: Callable[[str | bytes], bool]
    is_end: Callable[[str | bytes], bool]


def _fields(message: str | bytes) -> dict[str, Any]:
    """Return the fields of a message of JSON; none of a binary frame."""
    fields: dict[str, Any] = {} if isinstance(message, bytes) else json.loads(message)
    return fields


def _is(kind: str) -> Callable[[str | bytes], bool]:
    return lambda message: _fields(message).get("type") == kind


def _is_binary(message: str | bytes) -> bool:
    return isinstance(message, bytes)


_PLAIN_WAY = SocketWay(
    "/v1/audio/speech/stream",
    lambda seed: [{"type": "session.config", "voice": VOICE, "seed": seed}],
    lambda _: [{"type": "input.text", "text": TEXT}, {"type": "input.done"}],
    _is_binary,
    _is("session.done"),
)
_REALTIME = SocketWay(
    "/v1/realtime?intent=synthesis&seed={seed}",
    lambda _: [
        {
            "type": "synthesize_session.update",
            "session": {"input_text_synthesis": {"voice_name": VOICE}},
        }
    ],
    lambda _: [{"type": "input_text.append", "text": TEXT}, {"type": "input_text.done"}],
    _is("conversation.item.speech.data"),
    _is("conversation.item.speech.completed"),
)
_ELEVENLABS = SocketWay(
    f"/v1/text-to-speech/{VOICE}/stream-input?output_format=pcm_24000&seed={{seed}}",
    lambda _: [{"text": " "}],
    lambda _: [{"text": TEXT}, {"text": ""}],
    lambda message: bool(_fields(message).get("audio")),
    lambda message: _fields(message).get("isFinal") is True,
)
_DEEPGRAM = SocketWay(
    f"/v1/speak?model={VOICE}&seed={{seed}}",
    lambda _: [],
    lambda _: [{"type": "Speak", "text": TEXT}, {"type": "Flush"}],
    _is_binary,
    _is("Flushed"),
)
_CARTESIA = SocketWay(
    "/tts/websocket",
    lambda _: [],
    lambda seed: [
        {
            "transcript": TEXT,
            "voice": VOICE,
            "output_format": _RAW,
            "seed": seed,
            "context_id": "a",
        }
    ],
    _is("chunk"),
    _is("done"),
)


class Asker:
    """Opens connections, asks, and reads each answer to its end.

    Args:
        url: of the server.
        wyoming_port: of the same host.
        grpc_port: of the same host.
    """

    def __init__(self, url: str, wyoming_port: int, grpc_port: int, stack: AsyncExitStack) -> None:
        self._url, self._stack = url, stack
        self._wyoming_port, self._grpc_port = wyoming_port, grpc_port
        self._http = httpx.AsyncClient(base_url=url, timeout=60)
        stack.push_async_callback(self._http.aclose)

    def ways(self) -> dict[str, Ask]:
        """Return how each protocol is asked; the plain WebSocket is the first."""
        eleven = f"/v1/text-to-speech/{VOICE}"
        return {
            PLAIN: self._by_socket(_PLAIN_WAY),
            "REST": self._posted("/v1/audio/speech", "input", voice=VOICE, response_format="pcm"),
            "REST, events": self._posted(
                "/v1/audio/speech",
                "input",
                voice=VOICE,
                response_format="pcm",
                stream_format="sse",
            ),
            "captions (Kokoro)": self._posted(
                "/dev/captioned_speech",
                "input",
                voice=VOICE,
                response_format="pcm",
                stream=True,
                return_timestamps=False,
            ),
            "Riva, gRPC": self._riva,
            "Riva, realtime": self._by_socket(_REALTIME),
            "Wyoming": self._wyoming,
            "ElevenLabs": self._posted(f"{eleven}/stream?output_format=pcm_24000", "text"),
            "ElevenLabs, WebSocket": self._by_socket(_ELEVENLABS),
            "Deepgram": self._posted(
                f"/v1/speak?model={VOICE}&encoding=linear16&container=none", "text", in_query=True
            ),
            "Deepgram, WebSocket": self._by_socket(_DEEPGRAM),
            "Cartesia": self._posted("/tts/bytes", "transcript", voice=VOICE, output_format=_RAW),
            "Cartesia, WebSocket": self._by_socket(_CARTESIA),
        }

    def _posted(self, path: str, name: str, *, in_query: bool = False, **fields: Any) -> Ask:
        async def ask(seed: int) -> float:
            body = {name: TEXT, **fields}
            address = f"{path}&seed={seed}" if in_query else path
            if not in_query:
                body["seed"] = seed
            begin, first = time.monotonic(), None
            async with self._http.stream("POST", address, json=body) as answer:
                answer.raise_for_status()
                async for part in answer.aiter_raw():
                    first = first or (time.monotonic() - begin if part else None)
            assert first is not None
            return first

        return ask

    def _by_socket(self, way: SocketWay) -> Ask:
        async def ask(seed: int) -> float:
            url = self._url.replace("http", "ws", 1) + way.path.format(seed=seed)
            async with connect(url, proxy=None) as client:
                for message in way.settings(seed):
                    await _say(client, message)
                await asyncio.sleep(_PAUSE_SECONDS)
                begin = time.monotonic()
                for message in way.text(seed):
                    await _say(client, message)
                return await _heard(client, begin, way)

        return ask

    async def _wyoming(self, seed: int) -> float:
        from wyoming.client import AsyncTcpClient
        from wyoming.tts import Synthesize, SynthesizeVoice

        async with AsyncTcpClient("127.0.0.1", self._wyoming_port) as client:
            await asyncio.sleep(_PAUSE_SECONDS)
            asked = Synthesize(TEXT, SynthesizeVoice(name=VOICE), context={"seed": seed})
            begin, first = time.monotonic(), None
            await client.write_event(asked.event())
            while (event := await client.read_event()) is not None and event.type != "audio-stop":
                if event.type == "audio-chunk":
                    first = first or time.monotonic() - begin
            assert first is not None
            return first

    async def _riva(self, seed: int) -> float:
        import grpc
        import riva.client

        auth = riva.client.Auth(uri=f"127.0.0.1:{self._grpc_port}")
        client = riva.client.SpeechSynthesisService(auth)

        def heard() -> float:
            begin, first = time.monotonic(), None
            for part in client.synthesize_online(
                TEXT,
                voice_name=VOICE,
                sample_rate_hz=_RATE,
                custom_configuration={"seed": str(seed)},
            ):
                first = first or (time.monotonic() - begin if part.audio else None)
            assert first is not None
            return first

        try:
            await asyncio.to_thread(grpc.channel_ready_future(auth.channel).result, 30)
            return await asyncio.to_thread(heard)
        finally:
            auth.channel.close()


async def measure(asker: Asker, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds to the first sound of each protocol, round by round."""
    times: dict[str, list[float]] = {name: [] for name in asker.ways()}
    for seed in range(rounds + _WARM_UP):
        ways = list(asker.ways().items())
        for name, ask in ways[seed % len(ways) :] + ways[: seed % len(ways)]:
            await asyncio.sleep(_PAUSE_SECONDS)
            seconds = await ask(seed)
            if seed >= _WARM_UP:
                times[name].append(1000 * seconds)
    return times


def table(times: Mapping[str, Sequence[float]]) -> str:
    """Return the figures as Markdown: of the differences, round by round, the median counts."""
    lines = [
        "| protocol | first sound, ms: p50 | p95 | later than the WebSocket: median | quarters |",
        "| --- | --- | --- | --- | --- |",
    ]
    plain = np.array(times[PLAIN])
    for name, found in times.items():
        p50, p95 = np.percentile(found, [50, 95])
        low, later, high = np.percentile(np.array(found) - plain, [25, 50, 75])
        beside = "" if name == PLAIN else f"{later:+.1f} | {low:+.1f} to {high:+.1f}"
        lines.append(f"| {name} | {p50:.1f} | {p95:.1f} | {beside or ' | '} |")
    return "\n".join(lines)


def main() -> None:
    parser = new_parser("serving.protocols", __doc__ or "")
    parser.add_argument("--rounds", type=int, default=20, help="after the warm-up")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    check_at_least_one(parser, args, "rounds")
    times = asyncio.run(_measured(args.rounds, args.dtype))
    print(table(times))
    write_json({**origin(), "rounds": args.rounds, "first_sound_ms": times}, args.json)


async def _measured(rounds: int, dtype: str) -> dict[str, list[float]]:
    wyoming, grpc_port = free_ports(2)
    interfaces = ("--wyoming-port", str(wyoming), "--grpc-port", str(grpc_port))
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess(
            Path(folder), running=4, waiting=16, dtype=dtype, interfaces=interfaces
        ) as server,
    ):
        async with AsyncExitStack() as stack:
            return await measure(Asker(server.url, wyoming, grpc_port, stack), rounds)


async def _say(connection: ClientConnection, fields: Mapping[str, Any]) -> None:
    await connection.send(json.dumps(fields))


async def _heard(connection: ClientConnection, begin: float, way: SocketWay) -> float:
    """Read up to the end of the speech; return the seconds to its first sound."""
    first = None
    async for message in connection:
        now = time.monotonic()
        if first is None and way.is_sound(message):
            first = now - begin
        if way.is_end(message):
            break
    assert first is not None
    return first


if __name__ == "__main__":
    main()
