"""Deepgram's speech API, by plain clients that speak as its SDK, Pipecat and LiveKit do."""

from __future__ import annotations

import io
from typing import Any

import httpx
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from ChatTTS.serving.live.spacing import TextSpacing

from ...support.serving_tools import RunningServer
from ...support.vendor_tools import KEY, SEED, TEXT, VOICE, Talker, max_difference, post, talker
from ...support.websocket_tools import LONG, is_over

QUERY = f"?model={VOICE}&encoding=linear16&sample_rate=24000&seed={SEED}"
ADDRESS = f"/v1/speak{QUERY}"
BRIEF = (2 * 24 - 1) * 256  # samples of the longest utterance of this server


def hear_until(client: Talker, kind: str) -> tuple[bytes, dict[str, Any]]:
    """Return the sound up to a message of this type, and the message."""
    sound = b""
    while True:
        heard = client.hear()
        if isinstance(heard, bytes):
            sound += heard
        elif heard["type"] == kind:
            return sound, heard
        else:
            assert heard["type"] == "Metadata", heard


# -- HTTP ----------------------------------------------------------------------------------


def test_sound(server: RunningServer, whole: NDArray[np.int16]) -> None:
    answer = post(server, f"{ADDRESS}&container=none", {"text": TEXT})
    assert max_difference(answer.content, whole) <= 1
    assert answer.headers["dg-char-count"] == str(len(TEXT))
    assert answer.headers["dg-model-name"] == VOICE
    assert answer.headers["dg-request-id"] == answer.headers["x-request-id"]


def test_formats(server: RunningServer, whole: NDArray[np.int16]) -> None:
    wav = post(server, ADDRESS, {"text": TEXT}).content
    sound, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
    assert (rate, len(sound)) == (24_000, len(whole))
    mulaw = post(server, f"/v1/speak?model={VOICE}&encoding=mulaw&seed={SEED}", {"text": TEXT})
    assert abs(len(mulaw.content) - len(whole) / 3) < 10
    mp3 = post(server, f"/v1/speak?model={VOICE}&speed=1.5", {"text": TEXT})
    assert mp3.headers["content-type"] == "audio/mpeg"


@pytest.mark.parametrize(
    ("query", "body", "status", "code"),
    [
        ("?model=nobody", {"text": TEXT}, 400, "VOICE_NOT_FOUND"),
        ("?encoding=midi", {"text": TEXT}, 400, "INVALID_REQUEST"),
        ("?encoding=mp3&container=wav", {"text": TEXT}, 400, "INVALID_REQUEST"),
        ("?sample_rate=x", {"text": TEXT}, 400, "INVALID_REQUEST"),
        ("?sample_rate=23000", {"text": TEXT}, 400, "INVALID_REQUEST"),
        ("?speed=nan", {"text": TEXT}, 400, "INVALID_REQUEST"),
        ("?bit_rate=1", {"text": TEXT}, 400, "INVALID_REQUEST"),
        ("?callback=http://127.0.0.1/", {"text": TEXT}, 400, "INVALID_REQUEST"),
        ("", {"text": " "}, 400, "INVALID_REQUEST"),
        ("", {}, 400, "INVALID_REQUEST"),
    ],
)
def test_errors(
    server: RunningServer, query: str, body: dict[str, str], status: int, code: str
) -> None:
    answer = post(server, f"/v1/speak{query}", body)
    assert (answer.status_code, answer.json()["err_code"]) == (status, code)
    assert answer.json()["err_msg"]


def test_keys(keyed: RunningServer) -> None:
    def status(authorization: str) -> int:
        headers = {"Authorization": authorization}
        url = f"{keyed.url}/v1/speak?encoding=linear16"
        return httpx.post(url, json={"text": "Yes."}, headers=headers).status_code

    assert [status(f"{scheme} {KEY}") for scheme in ("Token", "token", "Bearer")] == [200] * 3
    assert status("Token wrong") == 401


# -- sockets -------------------------------------------------------------------------------


def test_text_in_parts(server: RunningServer, whole: NDArray[np.int16]) -> None:
    with talker(server, ADDRESS) as client:
        for word in TEXT.split(" "):
            client.say(type="Speak", text=f"{word} ")
        client.say(type="Flush")
        sound, flushed = hear_until(client, "Flushed")
        assert flushed["sequence_id"] == 0
        assert max_difference(sound, whole) <= 1
        client.say(type="Flush")
        assert client.hear() == {"type": "Flushed", "sequence_id": 1}
        client.say(type="Speak", text="Yes.")
        client.say(type="Close")
        frames = list(client.connection)
        assert frames
        assert all(isinstance(frame, bytes) for frame in frames)
        assert client.close_code == 1000


def test_the_first_message(server: RunningServer) -> None:
    with talker(server, ADDRESS) as client:
        metadata = client.hear()
        assert isinstance(metadata, dict)
        assert (metadata["type"], metadata["model_name"]) == ("Metadata", VOICE)
        client.say(type="Close")
        client.until_closed()
        assert client.close_code == 1000


def test_clearing_ends_the_speech(server: RunningServer) -> None:
    with talker(server, ADDRESS) as client:
        client.say(type="Speak", text=LONG)
        client.say(type="Flush")
        client.hear()
        client.hear()
        client.say(type="Clear")
        _, cleared = hear_until(client, "Cleared")
        assert cleared["sequence_id"] == 1
        assert server.becomes_idle()
        client.say(type="Speak", text=TEXT)
        client.say(type="Flush")
        sound, flushed = hear_until(client, "Flushed")
        # Nothing of the long text is left before that of the new one.
        assert 0 < len(sound) // 2 <= 2 * BRIEF
        assert flushed["sequence_id"] == 2
    assert is_over(server)


def test_a_wrong_message_is_a_warning(server: RunningServer) -> None:
    with talker(server, ADDRESS) as client:
        for wrong in ({"type": "Shout"}, {"type": "Speak"}, {"type": "Speak", "text": 5}, {}):
            client.say(**wrong)
            _, warning = hear_until(client, "Warning")
            assert warning["code"] == "INVALID_REQUEST"
        client.connection.send("[")
        hear_until(client, "Warning")
        client.say(type="Speak", text="Yes.")
        client.say(type="Flush")
        assert hear_until(client, "Flushed")[0]


@pytest.mark.parametrize(
    ("query", "status"), [("?model=nobody", 400), ("?encoding=mp3", 400), ("?model=alloy", 101)]
)
def test_the_handshake_refuses(server: RunningServer, query: str, status: int) -> None:
    if status == 101:
        with talker(server, f"/v1/speak{query}") as client:
            client.hear()
        return
    with pytest.raises(InvalidStatus) as caught, talker(server, f"/v1/speak{query}"):
        pass
    assert caught.value.response.status_code == status
    assert caught.value.response.headers["dg-error"]


def test_keys_of_sockets(keyed: RunningServer) -> None:
    with pytest.raises(InvalidStatus) as caught, talker(keyed, "/v1/speak"):
        pass
    assert caught.value.response.status_code == 401
    names = [Subprotocol("token"), Subprotocol(KEY)]
    with talker(keyed, "/v1/speak", subprotocols=names) as client:
        assert client.connection.subprotocol == "token"
        client.hear()


def test_spaces_between_sentences() -> None:
    def joined(*texts: str) -> str:
        spacing = TextSpacing()
        return "".join(spacing.spaced(text) for text in texts)

    assert joined("It was lit.", "Nobody knew.", " We went.") == "It was lit. Nobody knew. We went."
    assert joined("un", "believ", "able", ".", " Yes") == "unbelievable. Yes"
    assert joined("3.", "5 and ") == "3.5 and "
    spacing = TextSpacing()
    spacing.spaced("Hi.")
    spacing.reset()
    assert spacing.spaced("Ho.") == "Ho."
