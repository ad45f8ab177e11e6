"""Ways to ask over Wyoming, gRPC and MCP; each needs the packages of its clients."""

from __future__ import annotations

import base64
import importlib.util
from collections.abc import Mapping

from .requests import PATIENCE, Heard, Place, Request, UnansweredError, Way
from .socket_ways import parts

_RATE = 24_000


async def _wyoming(place: Place, request: Request, heard: Heard) -> None:
    from wyoming.tts import Synthesize, SynthesizeVoice

    voice = SynthesizeVoice(name=request.voice)
    asked = Synthesize(request.text, voice, context={"seed": request.seed})
    await _wyoming_events(place, [asked.event()], "audio-stop", heard)


async def _wyoming_parts(place: Place, request: Request, heard: Heard) -> None:
    from wyoming.tts import SynthesizeChunk, SynthesizeStart, SynthesizeStop, SynthesizeVoice

    voice = SynthesizeVoice(name=request.voice)
    start = SynthesizeStart(voice, context={"seed": request.seed})
    texts = [SynthesizeChunk(part).event() for part in parts(request.text)]
    events = [start.event(), *texts, SynthesizeStop().event()]
    await _wyoming_events(place, events, "synthesize-stopped", heard)


async def _wyoming_events(place: Place, events: list, last: str, heard: Heard) -> None:  # type: ignore[type-arg]
    """Send events, and take sound until the event ``last``."""
    from wyoming.client import AsyncTcpClient

    async with AsyncTcpClient("127.0.0.1", place.wyoming) as client:
        for event in events:
            await client.write_event(event)
        while (told := await client.read_event()) is not None:
            if told.type == "audio-chunk":
                heard.hear(told.payload or b"")
            elif told.type == "error":
                raise UnansweredError(f"{told.data.get('code')}: {told.data.get('text')}")
            elif told.type == last:
                return
    raise UnansweredError("the connection ended before the sound did")


async def _riva(place: Place, request: Request, heard: Heard, is_stream: bool) -> None:
    import grpc
    import riva.client.proto.riva_tts_pb2 as tts
    from riva.client.proto.riva_audio_pb2 import AudioEncoding
    from riva.client.proto.riva_tts_pb2_grpc import RivaSpeechSynthesisStub

    asked = tts.SynthesizeSpeechRequest(
        text=request.text,
        encoding=AudioEncoding.LINEAR_PCM,
        sample_rate_hz=_RATE,
        voice_name=request.voice,
        custom_configuration={"seed": str(request.seed)},
    )
    try:
        # A pool of its own: otherwise calls share a connection, and one that is cut ends others.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{place.grpc}", options) as channel:
            stub = RivaSpeechSynthesisStub(channel)
            if is_stream:
                call = stub.SynthesizeOnline(iter([asked]), timeout=PATIENCE)
                async for answer in call:
                    heard.hear(answer.audio)
            else:
                heard.hear((await stub.Synthesize(asked, timeout=PATIENCE)).audio)
    except grpc.aio.AioRpcError as error:
        raise UnansweredError(f"{error.code()}: {error.details()}") from None


async def _riva_online(place: Place, request: Request, heard: Heard) -> None:
    await _riva(place, request, heard, is_stream=True)


async def _riva_whole(place: Place, request: Request, heard: Heard) -> None:
    await _riva(place, request, heard, is_stream=False)


async def _mcp(place: Place, request: Request, heard: Heard) -> None:
    from mcp import Client

    fields = {"text": request.text, "voice": request.voice, "seed": request.seed}
    async with Client(f"http://127.0.0.1:{place.mcp}/mcp") as client:
        answer = await client.call_tool("speak", fields)
    if answer.is_error:
        raise UnansweredError(str(answer.content))
    for part in answer.content:
        if part.type == "audio":
            heard.hear(base64.b64decode(part.data))


def _known(name: str, ways: Mapping[str, Way]) -> Mapping[str, Way]:
    """Return the ways, where their package is installed."""
    return ways if importlib.util.find_spec(name) is not None else {}


WAYS: Mapping[str, Way] = {
    **_known(
        "wyoming",
        {
            "Wyoming": Way("wyoming", _wyoming),
            "Wyoming, text in parts": Way("wyoming", _wyoming_parts),
        },
    ),
    **_known(
        "riva",
        {"Riva, stream": Way("grpc", _riva_online), "Riva, whole": Way("grpc", _riva_whole)},
    ),
    **_known("mcp", {"MCP": Way("mcp", _mcp)}),
}
