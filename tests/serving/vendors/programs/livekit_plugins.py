"""LiveKit's plugin of a vendor against a server; prints facts as JSON.

Arguments: the vendor, the URL of the server, the text.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp

vendor, url, text = sys.argv[1:]


def plugin(session: aiohttp.ClientSession) -> Any:
    if vendor == "elevenlabs":
        from livekit.plugins import elevenlabs

        return elevenlabs.TTS(
            api_key="none",
            base_url=f"{url}/v1",
            voice_id="alloy",
            encoding="pcm_24000",
            http_session=session,
        )
    if vendor == "deepgram":
        from livekit.plugins import deepgram

        return deepgram.TTS(
            api_key="none", base_url=f"{url}/v1/speak", model="alloy", http_session=session
        )
    from livekit.plugins import cartesia

    return cartesia.TTS(
        api_key="none", base_url=url, voice="alloy", model="sonic-3", http_session=session
    )


async def main() -> None:
    async with aiohttp.ClientSession() as session:
        tts = plugin(session)
        whole = 0
        async with tts.synthesize(text) as stream:
            async for event in stream:
                whole += event.frame.samples_per_channel
        live, words = 0, []
        async with tts.stream() as stream:
            for word in text.split(" "):
                stream.push_text(f"{word} ")
            stream.end_input()
            async for event in stream:
                live += event.frame.samples_per_channel
                timed = event.frame.userdata.get("lk.timed_transcripts") or []
                words += [[str(word), word.start_time, word.end_time] for word in timed]
        await tts.aclose()
        rate = tts.sample_rate
        print(json.dumps({"whole": whole / rate, "live": live / rate, "words": words}))


asyncio.run(main())
