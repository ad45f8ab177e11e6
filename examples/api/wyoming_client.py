"""Speak by Wyoming, the protocol of Home Assistant's voice services, while the text is written.

pip install wyoming
chattts serve --wyoming-port
python examples/api/wyoming_client.py "It was cold." "We stayed at home." --out home.wav
my-language-model | python examples/api/wyoming_client.py -
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import wave
from collections.abc import AsyncIterator, Sequence

from wyoming.audio import AudioChunk
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.tts import (
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeVoice,
)

RATE = 24_000  # samples a second; 16 bits, mono


async def written(texts: Sequence[str]) -> AsyncIterator[str]:
    """Yield the texts, or standard input for ``-``, line by line."""
    for text in texts:
        if text == "-":
            while line := await asyncio.to_thread(sys.stdin.readline):
                yield line
        else:
            yield f"{text} "


async def tell(client: AsyncClient, texts: Sequence[str], voice: str | None) -> None:
    """Send the text as it comes; the server speaks each sentence once it is complete."""
    chosen = SynthesizeVoice(name=voice) if voice else None
    await client.write_event(SynthesizeStart(voice=chosen).event())
    async for text in written(texts):
        await client.write_event(SynthesizeChunk(text).event())
    await client.write_event(SynthesizeStop().event())


async def speak(client: AsyncClient, args: argparse.Namespace) -> None:
    with wave.open(args.out, "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        telling = asyncio.create_task(tell(client, args.texts, args.voice))
        event = await client.read_event()
        while event is not None and not SynthesizeStopped.is_type(event.type):
            if Error.is_type(event.type):
                raise SystemExit(Error.from_event(event).text)
            if AudioChunk.is_type(event.type):
                file.writeframes(AudioChunk.from_event(event).audio)
            event = await client.read_event()
        await telling
        print(f"{args.out}: {file.getnframes() / RATE:.2f} s")


async def list_voices(client: AsyncClient) -> None:
    await client.write_event(Describe().event())
    event = await client.read_event()
    for program in Info.from_event(event).tts if event else ():
        for voice in program.voices:
            print(voice.name, *voice.languages)


async def run(args: argparse.Namespace) -> None:
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(AsyncClient.from_uri(args.url))
        await (list_voices(client) if args.voices else speak(client, args))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Speak by Wyoming.")
    parser.add_argument("texts", nargs="*", default=["Good morning."], help="- is standard input")
    parser.add_argument("--url", default="tcp://127.0.0.1:10200", help="(default %(default)s)")
    parser.add_argument("--out", default="wyoming.wav", help="a .wav file")
    parser.add_argument("--voice", help="a name that --voices shows")
    parser.add_argument("--voices", action="store_true", help="list the voices, and speak nothing")
    asyncio.run(run(parser.parse_args(argv)))


if __name__ == "__main__":
    main()
