"""Wyoming, with the client of its own library, asked as Home Assistant asks."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)
from zeroconf import ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from ChatTTS.audio.pcm import to_int16
from ChatTTS.errors import ConfigError
from ChatTTS.serving.protocols.wyoming.announcement import SERVICE, announced, reachable_addresses
from ChatTTS.serving.settings import Settings

from ..support.bundled_voice import NAMES, UNKNOWN
from ..support.server_tools import WholeServer, whole_server
from ..support.serving_tools import PATIENCE, with_limits

T = TypeVar("T")
TEXT = "The sun was warm. We sat in the garden all day and read. It was late when we went home."
SEED = {"seed": 5}


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(wyoming_port=0, grpc_port=None, **with_limits(message_bytes=4096)) as one:
        yield one


@pytest.fixture(scope="module")
def spoken(server: WholeServer) -> bytes:
    """The sound of TEXT that the library gives without a server."""
    return to_int16(server.offline(TEXT, 5, "edith")).tobytes()


class Client:
    """A connection of the library's client."""

    def __init__(self, client: AsyncTcpClient) -> None:
        self._client = client

    async def say(self, *events: Any) -> None:
        for event in events:
            await self._client.write_event(event if isinstance(event, Event) else event.event())

    async def until(self, kind: Any) -> list[Event]:
        """Return the events up to one of this kind; fail if the connection ends before."""
        events: list[Event] = []
        while not (events and kind.is_type(events[-1].type)):
            event = await self._client.read_event()
            assert event is not None, [event.type for event in events]
            events.append(event)
        return events

    async def at_end(self) -> bool:
        return await self._client.read_event() is None


def ask(server: WholeServer, talk: Callable[[Client], Awaitable[T]]) -> T:
    """Return the result of a talk on one connection."""

    async def talked() -> T:
        async with AsyncTcpClient("127.0.0.1", wyoming_port(server)) as client:
            return await asyncio.wait_for(talk(Client(client)), PATIENCE)

    return asyncio.run(talked())


def wyoming_port(server: WholeServer) -> int:
    assert server.wyoming_port is not None
    return server.wyoming_port


def sound(events: list[Event]) -> bytes:
    """Return the samples of one start, its chunks and one stop."""
    kinds = [event.type for event in events if event.type.startswith("audio")]
    assert kinds == ["audio-start", *["audio-chunk"] * (len(kinds) - 2), "audio-stop"]
    start = AudioStart.from_event(events[0])
    assert (start.rate, start.width, start.channels) == (24_000, 2, 1)
    return b"".join(AudioChunk.from_event(e).audio for e in events if AudioChunk.is_type(e.type))


def test_it_describes_itself_with_its_voices(server: WholeServer) -> None:
    async def talk(client: Client) -> Info:
        await client.say(Describe())
        return Info.from_event((await client.until(Info))[-1])

    (program,) = ask(server, talk).tts
    assert program.installed
    assert program.supports_synthesize_streaming
    assert [voice.name for voice in program.voices] == list(NAMES)
    assert {tuple(voice.languages) for voice in program.voices} == {("en", "zh")}


def test_a_text_gives_the_samples_of_the_library(server: WholeServer, spoken: bytes) -> None:
    async def talk(client: Client) -> list[bytes]:
        voice = SynthesizeVoice(name="EDITH")
        # One connection serves several texts.
        sounds = []
        for _ in range(2):
            await client.say(Synthesize(TEXT, voice, context=SEED))
            sounds.append(sound(await client.until(AudioStop)))
        return sounds

    assert ask(server, talk) == [spoken, spoken]
    assert server.becomes_idle()


def test_a_text_in_parts_gives_them_too(server: WholeServer, spoken: bytes) -> None:
    async def talk(client: Client) -> bytes:
        voice = SynthesizeVoice(name="edith")
        await client.say(SynthesizeStart(voice, context=SEED))
        await client.say(*(SynthesizeChunk(TEXT[at : at + 7]) for at in range(0, len(TEXT), 7)))
        events = await client.until(AudioChunk)  # the text has not ended yet
        # Home Assistant also sends the whole text, for servers that know no parts.
        await client.say(Synthesize(TEXT, voice), SynthesizeStop())
        return sound(events + await client.until(SynthesizeStopped))

    assert ask(server, talk) == spoken
    assert server.becomes_idle()


@pytest.mark.parametrize("text", ["", " ", "😀", "**"])
def test_nothing_to_speak_is_a_short_silence(server: WholeServer, text: str) -> None:
    async def talk(client: Client) -> tuple[bytes, bytes]:
        await client.say(Synthesize(text))
        whole = sound(await client.until(AudioStop))
        await client.say(SynthesizeStart(), SynthesizeChunk(text), SynthesizeStop())
        return whole, sound(await client.until(SynthesizeStopped))

    assert ask(server, talk) == (bytes(9600), bytes(9600))


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (Synthesize("Hello.", SynthesizeVoice(name="nobody")), "voice_not_found"),
        (Synthesize("a" * 4000), "request_too_large"),
        (Synthesize("a" * 5000), "request_too_large"),
        (Synthesize("Hello.", context={"seed": "x"}), "invalid_request"),
        (Synthesize("<speak>Hi", text_format="ssml"), "invalid_request"),
        (Synthesize(UNKNOWN), "nothing_to_speak"),
        (SynthesizeChunk("Hello."), "invalid_request"),
        (Event("synthesize", {"text": 4}), "invalid_request"),
        (Event("synthesize", {"text": "a", "voice": "x"}), "invalid_request"),
        (Event("synthesize", {"text": "a", "voice": {"name": 4}}), "invalid_request"),
    ],
)
def test_an_error_is_told_and_ends_the_connection(
    server: WholeServer, event: Any, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = with_limits(characters=3000)["limits"]
    monkeypatch.setattr(server.service, "settings", Settings(limits=limits))

    async def talk(client: Client) -> tuple[str | None, bool]:
        await client.say(event)
        return Error.from_event((await client.until(Error))[-1]).code, await client.at_end()

    assert ask(server, talk) == (code, True)


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n",
        b"[]\n",
        b'{"type": 3}\n',
        b'{"type": "describe", "data": [1]}\n',
        b'{"type": "describe", "data_length": -1}\n',
        b'{"type": "describe", "data_length": "x"}\n',
        b'{"type": "describe", "data_length": 3}\n[1]',
        b'{"type": "describe", "payload_length": 1000000000000}\n',
        b"x" * 100_000,
    ],
)
def test_what_is_no_event_is_refused(server: WholeServer, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", wyoming_port(server)), PATIENCE) as connection:
        connection.sendall(data)
        answer = connection.makefile("rb").readline()
        assert json.loads(answer)["type"] == "error"


def test_a_client_that_leaves_frees_everything(server: WholeServer) -> None:
    async def talk(client: Client) -> None:
        await client.say(Synthesize(TEXT * 5))
        await client.until(AudioChunk)

    ask(server, talk)
    assert server.becomes_idle()


def test_wyoming_and_keys(server: WholeServer) -> None:
    with pytest.raises(ConfigError, match="the Wyoming protocol has no API keys"):
        Settings(api_keys=("k",), wyoming_port=10200)
    Settings(api_keys=("k",), wyoming_port=10200, wyoming_without_keys=True)
    with pytest.raises(ConfigError, match="must differ"):
        Settings(port=10200, wyoming_port=10200)


def test_home_assistant_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the loopback interface; the server announces on the others."""
    found: asyncio.Queue[str] = asyncio.Queue()

    def changed(
        zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        found.put_nowait(name)

    async def looked() -> tuple[list[str], int | None]:
        async with (
            announced(10200, ["127.0.0.1"], ["127.0.0.1"]),
            AsyncZeroconf(interfaces=["127.0.0.1"]) as zeroconf,
        ):
            browser = AsyncServiceBrowser(zeroconf.zeroconf, SERVICE, handlers=[changed])
            info = AsyncServiceInfo(SERVICE, await asyncio.wait_for(found.get(), PATIENCE))
            assert await info.async_request(zeroconf.zeroconf, 3000)
            await browser.async_cancel()
            return info.parsed_addresses(), info.port

    assert asyncio.run(looked()) == (["127.0.0.1"], 10200)
    assert reachable_addresses("127.0.0.1") == []
    assert reachable_addresses("192.0.2.7") == ["192.0.2.7"]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: [(0, 0, 0, "", ("127.0.1.1", 0))])
    assert reachable_addresses("mybox") == []


@pytest.mark.parametrize("half", [b"{", b'{"type": "describe", "data_length": 5}\n{'])
def test_an_event_that_drips_ends_its_connection(half: bytes) -> None:
    limits = with_limits(body_seconds=0.3)
    with whole_server(wyoming_port=0, grpc_port=None, **limits) as server:
        assert server.wyoming_port is not None
        with socket.create_connection(("127.0.0.1", server.wyoming_port), PATIENCE) as connection:
            connection.sendall(half)
            told = b""
            while part := connection.recv(1000):
                told += part
        assert b"did not arrive within 0.3 s" in told
