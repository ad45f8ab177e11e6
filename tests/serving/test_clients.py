"""OpenAI's client on the server, and one request over every interface."""

from __future__ import annotations

import base64
import io
import json
import random
from collections.abc import Callable, Iterator
from itertools import cycle

import httpx
import numpy as np
import openai
import pytest
import soundfile
from numpy.typing import NDArray

from ChatTTS.audio import to_int16
from ChatTTS.config.request_fields import Priority
from ChatTTS.serving.http.auth import Authenticator
from ChatTTS.serving.protocols.rest.body_schemas import FormatName

from ..support.protocol_clients import OWN_CLIENTS, PROTOCOL_CLIENTS, ProtocolClient
from ..support.server_tools import (
    RATE,
    WholeServer,
    decoded,
    max_difference,
    samples,
    similarity,
    whole_server,
)
from ..support.serving_tools import PATIENCE, RunningServer, with_limits
from ..support.websocket_tools import speaker

TEXT = "The lamp was lit. Nobody knew why. We went home."
SHORT = "We went home."
VOICE = "edith"
SEED = 11
# Defaults of ElevenLabs', Deepgram's and Cartesia's examples, of Riva's and of Kokoro's clients.
VENDORS_NAMES = (
    "21m00Tcm4TlvDq8ikWAM",
    "aura-asteria-en",
    "694f9389-aac1-45b6-b726-9d9369183238",
    "English-US.Female-1",
    "af_heart",
)
KEY = "a-key"
EXACT = ("pcm", "wav", "flac")
FORMATS = (*EXACT, "mp3", "opus", "aac")


@pytest.fixture(scope="module")
def server() -> Iterator[WholeServer]:
    with whole_server(wyoming_port=0, aliases=dict.fromkeys(VENDORS_NAMES, VOICE)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: WholeServer) -> Iterator[openai.OpenAI]:
    with openai_client(server) as client:
        yield client


@pytest.fixture(scope="module")
def offline(server: WholeServer) -> NDArray[np.int16]:
    """The samples that every client must receive."""
    sound: NDArray[np.int16] = to_int16(server.offline(SHORT, SEED, VOICE))
    return sound


def openai_client(server: RunningServer, key: str = "none", retries: int = 0) -> openai.OpenAI:
    url = f"{server.url}/v1"
    return openai.OpenAI(base_url=url, api_key=key, max_retries=retries, timeout=PATIENCE)


def check(data: bytes, kind: str, offline: NDArray[np.int16]) -> None:
    """Check that ``data`` is a file of this format with the expected samples."""
    if kind == "pcm":
        assert max_difference(samples(data), offline) <= 1
        return
    sound, rate = decoded(data)
    if kind in EXACT:
        assert rate == RATE
        assert max_difference(sound, offline) <= 1
        return
    if kind == "opus":  # Opus always decodes at 48 kHz
        assert rate == 2 * RATE
        sound = sound[::2]
    assert abs(len(sound) - len(offline)) < RATE // 5
    assert similarity(sound, offline) > 0.95


# ------------------------------------------------------------------ openai


@pytest.mark.parametrize("kind", FORMATS)
def test_create(client: openai.OpenAI, offline: NDArray[np.int16], kind: FormatName) -> None:
    answer = client.audio.speech.create(
        model="gpt-4o-mini-tts",
        voice=VOICE,
        input=SHORT,
        response_format=kind,
        extra_body={"seed": SEED, "stream": False},
    )
    check(answer.content, kind, offline)
    if kind in ("wav", "flac"):
        sound, rate = soundfile.read(io.BytesIO(answer.content), dtype="int16")
        assert rate == RATE
        assert max_difference(sound, offline) <= 1


@pytest.mark.parametrize("kind", FORMATS)
def test_streaming_create(
    client: openai.OpenAI, whole: NDArray[np.int16], kind: FormatName
) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1",
        voice={"id": VOICE},
        input=TEXT,
        response_format=kind,
        extra_body={"seed": SEED},
    ) as answer:
        parts = list(answer.iter_bytes())
    assert len(parts) > 1
    check(b"".join(parts), kind, whole)


def test_events(client: openai.OpenAI, offline: NDArray[np.int16]) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1",
        voice=VOICE,
        input=SHORT,
        response_format="pcm",
        stream_format="sse",
        extra_body={"seed": SEED},
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    *deltas, done = (json.loads(line[len("data: ") :]) for line in lines)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    audio = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    assert max_difference(samples(audio), offline) <= 1
    assert done["type"] == "speech.audio.done"
    usage = done["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0


def test_create_gives_mp3_by_default(client: openai.OpenAI) -> None:
    data = client.audio.speech.create(model="tts-1", voice="alloy", input=SHORT).content
    assert decoded(data)[1] == RATE
    assert soundfile.info(io.BytesIO(data)).format == "MP3"


def test_speed(client: openai.OpenAI, offline: NDArray[np.int16]) -> None:
    answer = client.audio.speech.create(
        model="tts-1",
        voice=VOICE,
        input=SHORT,
        response_format="pcm",
        speed=1.25,
        extra_body={"seed": SEED},
    )
    length = len(samples(answer.content))
    assert abs(length - len(offline) / 1.25) < RATE / 10


@pytest.mark.slow
def test_voices_differ(client: openai.OpenAI, server: WholeServer) -> None:
    def spoken(voice: str) -> NDArray[np.int16]:
        answer = client.audio.speech.create(
            model="tts-1",
            voice=voice,
            input=SHORT,
            response_format="pcm",
            extra_body={"seed": SEED},
        )
        return samples(answer.content)

    own = list(server.chat.config.defaults.speakers)
    names = [own[-1], "alloy"]
    sounds = [spoken(name) for name in names]
    for name, sound in zip(names, sounds, strict=True):
        assert max_difference(sound, to_int16(server.offline(SHORT, SEED, name))) <= 1
    assert not np.array_equal(sounds[0], sounds[1])


def test_models(client: openai.OpenAI) -> None:
    names = [model.id for model in client.models.list()]
    assert {"chattts", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"} <= set(names)
    assert client.models.retrieve("tts-1").id == "tts-1"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


# ------------------------------------------------------------------ errors of openai


@pytest.mark.parametrize(
    ("fields", "kind", "param", "code"),
    [
        ({"input": ""}, openai.BadRequestError, "input", "invalid_request"),
        ({"speed": 9.0}, openai.BadRequestError, "speed", "invalid_request"),
        ({"voice": "nobody"}, openai.BadRequestError, "voice", "voice_not_found"),
    ],
)
def test_errors_are_those_of_the_client(
    client: openai.OpenAI,
    fields: dict[str, str | float],
    kind: type[openai.APIStatusError],
    param: str,
    code: str,
) -> None:
    asked = {"model": "tts-1", "voice": VOICE, "input": SHORT, **fields}
    with pytest.raises(kind) as caught:
        client.audio.speech.create(**asked)  # type: ignore[arg-type]
    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.request_id
    body = caught.value.body
    assert isinstance(body, dict)
    assert body["message"] in str(caught.value)


@pytest.fixture(scope="module")
def small() -> Iterator[WholeServer]:
    """A server with a key and one place, where one request of each client may wait."""
    limits = with_limits(running=1, waiting=2, waiting_per_client=1, characters=100)
    with whole_server(api_keys=(KEY, "another"), **limits) as running:
        yield running


@pytest.fixture
def keyed(small: WholeServer) -> Iterator[openai.OpenAI]:
    with openai_client(small, KEY) as client:
        yield client


def speak(client: openai.OpenAI, text: str = SHORT) -> bytes:
    answer = client.audio.speech.create(
        model="tts-1", voice=VOICE, input=text, response_format="pcm", extra_body={"seed": SEED}
    )
    return answer.content


def occupy(server: WholeServer, *clients: str) -> Callable[[], None]:
    """Take the only running place, and then a place in the queue for each of ``clients``.

    Returns:
        A function that releases all these places.
    """

    def enter(client: str) -> Callable[[], None]:
        admission = server.service.admission
        how = {"priority": Priority.INTERACTIVE, "cost": 1, "deadline": None}
        return admission.enter(client=client, **how).release  # type: ignore[arg-type]

    leaves = [server.call(lambda name=name: enter(name)) for name in ("", *clients)]  # type: ignore[misc]

    def give_back() -> None:
        for leave in reversed(leaves):
            server.call(leave)

    return give_back


def label(server: WholeServer, key: str) -> str:
    """Return the server's name of the client with this key."""
    return Authenticator(server.settings.api_keys).client(key, "")


@pytest.mark.slow
def test_a_wrong_key(small: WholeServer, keyed: openai.OpenAI) -> None:
    with openai_client(small, "wrong") as stranger, pytest.raises(openai.AuthenticationError):
        speak(stranger)
    assert speak(keyed)


@pytest.mark.slow
def test_a_text_that_is_too_long(keyed: openai.OpenAI) -> None:
    with pytest.raises(openai.APIStatusError) as caught:
        speak(keyed, "Hello. " * 20)
    assert (caught.value.status_code, caught.value.code) == (413, "request_too_large")


def test_a_full_server_and_a_limit_of_ones_own(small: WholeServer, keyed: openai.OpenAI) -> None:
    own = label(small, KEY)
    for waiting, kind in (
        (("one", "two"), openai.InternalServerError),
        ((own,), openai.RateLimitError),
    ):
        give_back = occupy(small, *waiting)
        try:
            with pytest.raises(kind) as caught:
                speak(keyed)
            assert int(caught.value.response.headers["retry-after"]) >= 1
        finally:
            give_back()
    assert small.becomes_idle()


@pytest.mark.slow
def test_the_client_retries_after_the_time_that_it_is_told(
    small: WholeServer, offline: NDArray[np.int16]
) -> None:
    statuses: list[int] = []

    def saw(response: httpx.Response) -> None:
        statuses.append(response.status_code)
        if len(statuses) == 1:
            assert response.headers["retry-after"] == "1"
            give_back()

    give_back = occupy(small, "one", "two")
    with openai_client(small, KEY, retries=1) as client:
        client._client.event_hooks["response"].append(saw)
        answer = speak(client)
    assert statuses == [503, 200]
    assert max_difference(samples(answer), offline) <= 1


# ------------------------------------------------------------------ one request, all interfaces


def by_openai(server: WholeServer) -> bytes:
    with openai_client(server) as client:
        return speak(client, TEXT)


def by_rest_whole(server: WholeServer) -> bytes:
    body = {"input": TEXT, "voice": VOICE, "seed": SEED, "response_format": "pcm", "stream": False}
    answer = httpx.post(f"{server.url}/v1/audio/speech", json=body, timeout=PATIENCE)
    return answer.content


def by_batch(server: WholeServer) -> bytes:
    body = {"response_format": "pcm", "voice": VOICE, "seed": SEED, "items": [{"input": TEXT}]}
    answer = httpx.post(f"{server.url}/v1/audio/speech/batch", json=body, timeout=PATIENCE)
    return base64.b64decode(answer.json()["data"][0]["audio"])


def by_socket(server: WholeServer) -> bytes:
    """Yield a few characters at a time, as a language model does."""
    draw = random.Random(SEED)
    left = TEXT
    with speaker(server) as socket:
        socket.say("session.config", voice=VOICE, seed=SEED)
        while left:
            size = draw.randrange(1, 8)
            socket.say("input.text", text=left[:size])
            left = left[size:]
        socket.say("input.done")
        socket.until("session.done")
        return bytes(socket.audio[None])


def by_stream(server: WholeServer) -> bytes:
    pieces = server.chat.stream(TEXT, skip_refine_text=True, params_infer_code=parameters(server))
    sound = to_int16(np.concatenate([piece.samples for piece in pieces]))
    return bytes(sound.astype("<i2").tobytes())


CLIENTS = (
    by_openai,
    by_rest_whole,
    by_batch,
    by_socket,
    by_stream,
)


def parameters(server: WholeServer) -> dict[str, str | int]:
    return server.service.voices.parameters(VOICE) | {"manual_seed": SEED}


@pytest.fixture(scope="module")
def whole(server: WholeServer) -> NDArray[np.int16]:
    sound: NDArray[np.int16] = to_int16(server.offline(TEXT, SEED, VOICE))
    assert len(sound) > RATE
    return sound


@pytest.mark.slow
@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
def test_the_same_samples_everywhere(
    server: WholeServer, whole: NDArray[np.int16], ask: Callable[[WholeServer], bytes]
) -> None:
    assert max_difference(samples(ask(server)), whole) <= 1


@pytest.mark.parametrize("ask", [*OWN_CLIENTS, *PROTOCOL_CLIENTS], ids=lambda ask: ask.__name__)
def test_the_same_samples_over_every_protocol(
    server: WholeServer, whole: NDArray[np.int16], ask: ProtocolClient
) -> None:
    assert max_difference(samples(ask(server, TEXT, VOICE, SEED)), whole) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ask", "name"), list(zip(PROTOCOL_CLIENTS[::2], cycle(VENDORS_NAMES), strict=False))
)
def test_an_alias_is_a_voice_of_every_protocol(
    server: WholeServer, ask: ProtocolClient, name: str
) -> None:
    assert ask(server, SHORT, name, SEED) == ask(server, SHORT, VOICE, SEED)
