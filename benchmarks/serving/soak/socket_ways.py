"""Ways to ask over WebSockets."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from .requests import PATIENCE, Heard, Place, Request, UnansweredError, Way

_RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
Messages = Sequence[Mapping[str, Any]]


def parts(text: str, count: int = 3) -> list[str]:
    """Return a text in parts of about equal length, as a language model writes it."""
    size = -(-len(text) // count)
    return [text[at : at + size] for at in range(0, len(text), size)]


def _by_socket(
    path: Callable[[Request], str],
    messages: Callable[[Request], Messages],
    sound: str | None,
    is_end: Callable[[Mapping[str, Any]], bool],
) -> Way:
    """Return how a socket is asked.

    Args:
        path: with its query.
        messages: what the client sends.
        sound: the field with sound in base64; ``None`` where sound is in binary frames.
        is_end: whether a message of the server is its last one.
    """

    async def ask(place: Place, request: Request, heard: Heard) -> None:
        url = f"ws://127.0.0.1:{place.http}{path(request)}"
        try:
            async with connect(url, proxy=None, open_timeout=PATIENCE, max_size=None) as client:
                for message in messages(request):
                    await client.send(json.dumps(message))
                async for frame in client:
                    if isinstance(frame, bytes):
                        heard.hear(frame)
                        continue
                    told = json.loads(frame)
                    if told.get("error") or str(told.get("type")).lower() in ("error", "warning"):
                        raise UnansweredError(frame)
                    if sound is not None and isinstance(told.get(sound), str):
                        heard.hear(base64.b64decode(told[sound]))
                    if is_end(told):
                        return
        except InvalidStatus as error:
            body = error.response.body or b""
            raise UnansweredError(
                body.decode(errors="replace"), error.response.status_code
            ) from None
        raise UnansweredError("the socket was closed before the sound ended")

    return Way("http", ask)


def _is(kind: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda told: told.get("type") == kind


def _plain(asked: Request) -> Messages:
    config = {"type": "session.config", "voice": asked.voice, "seed": asked.seed}
    texts = [{"type": "input.text", "text": part} for part in parts(asked.text)]
    return [config, *texts, {"type": "input.done"}]


def _realtime(asked: Request) -> Messages:
    session = {"input_text_synthesis": {"voice_name": asked.voice}}
    return [
        {"type": "synthesize_session.update", "session": session},
        {"type": "input_text.append", "text": asked.text},
        {"type": "input_text.done"},
    ]


def _elevenlabs_path(asked: Request) -> str:
    query = urlencode({"output_format": "pcm_24000", "seed": asked.seed})
    return f"/v1/text-to-speech/{asked.voice}/stream-input?{query}"


def _elevenlabs(asked: Request) -> Messages:
    return [{"text": " "}, *({"text": part} for part in parts(asked.text)), {"text": ""}]


def _deepgram_path(asked: Request) -> str:
    return "/v1/speak?" + urlencode({"model": asked.voice, "seed": asked.seed})


def _deepgram(asked: Request) -> Messages:
    return [*({"type": "Speak", "text": part} for part in parts(asked.text)), {"type": "Flush"}]


def _cartesia(asked: Request) -> Messages:
    said = {"transcript": asked.text, "voice": asked.voice, "seed": asked.seed}
    return [{**said, "output_format": _RAW, "context_id": "a"}]


WAYS: Mapping[str, Way] = {
    "WebSocket": _by_socket(lambda _: "/v1/audio/speech/stream", _plain, None, _is("session.done")),
    "Riva, realtime": _by_socket(
        lambda asked: f"/v1/realtime?intent=synthesis&seed={asked.seed}",
        _realtime,
        "audio",
        _is("conversation.item.speech.completed"),
    ),
    "ElevenLabs, WebSocket": _by_socket(
        _elevenlabs_path, _elevenlabs, "audio", lambda told: told.get("isFinal") is True
    ),
    "Deepgram, WebSocket": _by_socket(_deepgram_path, _deepgram, None, _is("Flushed")),
    "Cartesia, WebSocket": _by_socket(lambda _: "/tts/websocket", _cartesia, "data", _is("done")),
}
