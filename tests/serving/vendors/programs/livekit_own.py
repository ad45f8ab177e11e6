"""Our plugin for LiveKit Agents, as in ``examples/agents``, against a server; prints facts as JSON.

A stream is heard to its end. Then an agent speaks, and is interrupted while it plays.
Arguments: the URL of the server, the text, and how many seconds of the agent are heard.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
from livekit import rtc
from livekit.agents import Agent, AgentSession
from livekit.agents.voice.io import AudioOutput, AudioOutputCapabilities, TextOutput
from livekit.agents.voice.transcription import TranscriptSynchronizer

sys.path.append(str(Path(__file__).parents[4] / "examples" / "agents"))
from livekit_tts import TTS

url, text, seconds = sys.argv[1:]


class Loudspeaker(AudioOutput):  # type: ignore[misc]
    """Plays in real time what it was given, until it is cleared."""

    def __init__(self) -> None:
        super().__init__(label="loudspeaker", capabilities=AudioOutputCapabilities(pause=False))
        self._since, self._pushed = 0.0, 0.0
        self._ending: asyncio.Task[None] | None = None
        self.begun = asyncio.Event()

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if not self._since:
            self._since = time.monotonic()
            self.on_playback_started(created_at=time.time())
            self.begun.set()
        self._pushed += frame.duration

    def flush(self) -> None:
        super().flush()
        if self._since:
            self._ending = asyncio.create_task(self._play_out())

    async def _play_out(self) -> None:
        await asyncio.sleep(max(0.0, self._since + self._pushed - time.monotonic()))
        self._finish(self._pushed, False)

    def clear_buffer(self) -> None:
        if self._ending:
            self._ending.cancel()
        if self._since:
            self._finish(min(self._pushed, time.monotonic() - self._since), True)

    def _finish(self, position: float, interrupted: bool) -> None:
        self._since, self._pushed, self._ending = 0.0, 0.0, None
        self.on_playback_finished(playback_position=position, interrupted=interrupted)


class Subtitles(TextOutput):  # type: ignore[misc]
    """Takes the text in step with the sound, as a room does."""

    def __init__(self) -> None:
        super().__init__(label="subtitles", next_in_chain=None)

    async def capture_text(self, text: str) -> None:
        pass

    def flush(self) -> None:
        pass


async def written() -> AsyncIterator[str]:
    for word in text.split(" "):
        yield f"{word} "


async def interrupted(speaker: TTS) -> dict[str, Any]:
    """Let an agent speak, interrupt it, and return what it knows of what was heard."""
    session = AgentSession(tts=speaker, use_tts_aligned_transcript=True)
    loudspeaker = Loudspeaker()
    together = TranscriptSynchronizer(
        next_in_chain_audio=loudspeaker, next_in_chain_text=Subtitles()
    )
    session.output.audio = together.audio_output
    session.output.transcription = together.text_output
    heard: list[Any] = []
    await session.start(Agent(instructions=""))

    @session.output.audio.on("playback_finished")  # type: ignore[untyped-decorator]
    def finished(event: Any) -> None:
        heard.append([event.interrupted, speaker.last_word(event.playback_position)])

    speech = session.say(written())
    await asyncio.wait_for(loudspeaker.begun.wait(), 60)
    await asyncio.sleep(float(seconds))
    await session.interrupt()
    await asyncio.wait_for(speech, 60)
    told = [item for item in session.history.items if item.type == "message"]
    items = [[item.text_content, item.interrupted] for item in told]
    await together.aclose()
    await session.aclose()
    return {"heard": heard, "items": items}


async def main() -> None:
    socket = f"{url.replace('http', 'ws', 1)}/v1/audio/speech/stream"
    async with aiohttp.ClientSession() as session:
        speaker = TTS(url=socket, api_key="none", voice="alloy", http_session=session, seed=7)
        whole = bytearray()
        async with speaker.synthesize(text) as chunks:
            async for event in chunks:
                whole += event.frame.data
        live, words = bytearray(), []
        async with speaker.stream() as stream:
            async for word in written():
                stream.push_text(word)
            stream.end_input()
            async for event in stream:
                live += event.frame.data
                timed = event.frame.userdata.get("lk.timed_transcripts") or []
                words += [[str(word), word.start_time, word.end_time] for word in timed]
        facts = {"whole": len(whole) / 48_000, "live": len(live) / 48_000, "words": words}
        facts["alike"] = whole.startswith(live) or live.startswith(whole)
        facts |= await interrupted(speaker)
        await speaker.aclose()
    print(json.dumps(facts))


asyncio.run(main())
