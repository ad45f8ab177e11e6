"""Deepgram's Python SDK against the server at the first argument; prints facts as JSON."""

from __future__ import annotations

import hashlib
import json
import sys

from deepgram import DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from deepgram.speak.v1.types import SpeakV1Text

url, text = sys.argv[1:]
socket_url = url.replace("http", "ws", 1)
places = {"base": url, "production": socket_url, "agent": socket_url, "agent_rest": url}
client = DeepgramClient(api_key="none", environment=DeepgramClientEnvironment(**places))
seeded = {"additional_query_parameters": {"seed": 7}}


def digest(sound: bytes) -> str:
    return hashlib.sha256(sound).hexdigest()


whole = b"".join(
    client.speak.v1.audio.generate(
        text=text,
        model="alloy",
        encoding="linear16",
        container="none",
        sample_rate=24000,
        request_options=seeded,
    )
)
kinds: list[str] = []
live = b""
query = {"model": "alloy", "encoding": "linear16", "sample_rate": "24000"}
with client.speak.v1.connect(**query, request_options=seeded) as socket:
    for word in text.split(" "):
        socket.send_text(SpeakV1Text(text=f"{word} "))
    socket.send_flush()
    while "Flushed" not in kinds:
        message = socket.recv()
        if isinstance(message, bytes):
            live += message
        else:
            kinds.append(message.type)
    socket.send_text(SpeakV1Text(text=text))
    socket.send_clear()
    while "Cleared" not in kinds:
        message = socket.recv()
        if not isinstance(message, bytes):
            kinds.append(message.type)
    socket.send_close()
    after = [message for message in socket if not isinstance(message, bytes)]
try:
    b"".join(client.speak.v1.audio.generate(text=text, model="nobody"))
    refusal = None
except ApiError as error:
    refusal = error.status_code
facts = {
    "sounds": [digest(whole), digest(live)],
    "kinds": kinds,
    "after": len(after),
    "refusal": refusal,
}
print(json.dumps(facts))
