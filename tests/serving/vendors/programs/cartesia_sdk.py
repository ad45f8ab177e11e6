"""Cartesia's Python SDK against the server at the first argument; prints facts as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from typing import Any

from cartesia import APIStatusError, Cartesia

url, text = sys.argv[1:]
client = Cartesia(
    api_key="none", base_url=url, websocket_base_url=url.replace("http", "ws", 1), max_retries=0
)
raw = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24000}
asked: dict[str, Any] = {
    "model_id": "sonic-3",
    "transcript": text,
    "voice": {"mode": "id", "id": "alloy"},
    "output_format": raw,
}
seeded = {"extra_body": {"seed": 7}}


def digest(sound: bytes) -> str:
    return hashlib.sha256(sound).hexdigest()


whole = client.tts.generate(**asked, **seeded).read()
streamed, words = b"", []
for event in client.tts.generate_sse(**asked, add_timestamps=True, **seeded):
    if event.type == "chunk":
        streamed += base64.b64decode(event.data)
    elif event.type == "timestamps":
        words += event.word_timestamps.words
live, live_words = b"", []
with client.tts.websocket_connect() as connection:
    context = connection.context(
        model_id="sonic-3",
        voice={"mode": "id", "id": "alloy"},
        output_format=raw,
        add_timestamps=True,
    )
    for word in text.split(" "):
        context.push(f"{word} ")
    context.no_more_inputs()
    for message in context.receive():
        if message.type == "chunk":
            live += message.audio
        elif message.type == "timestamps":
            live_words += message.word_timestamps.words
    request = {**asked, "context_id": "seeded", "seed": 7}
    connection.send(request)
    seeded_live = b""
    while (message := connection.recv()).type != "done":
        seeded_live += message.audio or b""
    interrupted = connection.context(
        model_id="sonic-3", voice={"mode": "id", "id": "alloy"}, output_format=raw
    )
    interrupted.push(text)
    interrupted.cancel()
try:
    client.tts.generate(**{**asked, "voice": {"mode": "id", "id": "nobody"}})
    refusal = None
except APIStatusError as error:
    refusal = error.status_code
facts = {
    "sounds": [digest(whole), digest(streamed), digest(seeded_live)],
    "words": words,
    "live_bytes": len(live),
    "live_words": live_words,
    "voices": [voice.id for voice in client.voices.list(limit=3)],
    "voice": client.voices.get("alloy").name,
    "refusal": refusal,
}
print(json.dumps(facts))
