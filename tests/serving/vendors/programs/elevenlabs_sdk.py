"""ElevenLabs' Python SDK against the server at the first argument; prints facts as JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Iterator

from elevenlabs.client import ElevenLabs
from elevenlabs.core.api_error import ApiError

url, text = sys.argv[1:]
client = ElevenLabs(base_url=url, api_key="none")
speech = client.text_to_speech
asked = {"voice_id": "alloy", "text": text, "seed": 7, "output_format": "pcm_24000"}


def words() -> Iterator[str]:
    for word in text.split(" "):
        yield f"{word} "


def digest(sound: bytes) -> str:
    return hashlib.sha256(sound).hexdigest()


whole = speech.convert_with_timestamps(**asked)
parts = list(speech.stream_with_timestamps(**asked))
live = b"".join(
    speech.convert_realtime("alloy", text=words(), model_id="any", output_format="pcm_24000")
)
try:
    b"".join(speech.convert("nobody", text=text))
    refusal = None
except ApiError as error:
    refusal = error.status_code
facts = {
    "sounds": [
        digest(b"".join(speech.convert(**asked))),
        digest(b"".join(speech.stream(**asked))),
        digest(base64.b64decode(whole.audio_base_64)),
        digest(b"".join(base64.b64decode(part.audio_base_64) for part in parts)),
    ],
    "characters": "".join(whole.alignment.characters),
    "live_bytes": len(live),
    "voices": [voice.voice_id for voice in client.voices.get_all().voices],
    "found": client.voices.search(search="alloy").total_count,
    "models": [model.model_id for model in client.models.list()],
    "user": client.user.get().subscription.tier,
    "refusal": refusal,
}
print(json.dumps(facts))
