"""A lexicon over REST, the WebSocket and gRPC: what is spoken, and what clients are told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from ChatTTS.audio import to_int16
from ChatTTS.core import Chat
from ChatTTS.serving.errors import BadRequestError
from ChatTTS.serving.protocols.riva.request_parsing import parse_dictionary
from ChatTTS.text import Lexicon

from ..support.places import DATA
from ..support.riva_tools import NATIVE, connected, samples
from ..support.serving_tools import RunningServer, running_server
from ..support.websocket_tools import EXTEND, speaker

TEXT = "We went to nginx."
SAID = "We went to engine x."
LEXICON = {"nginx": "engine x"}
USE = {"text": "nginx", "saying": "engine x", "start_character": 11, "end_character": 16}
SEED = 5


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server without a lexicon of its own."""
    with running_server(brief=False, extend=EXTEND, result_cache_bytes=1 << 22) as running:
        yield running


def offline(server: RunningServer, text: str) -> NDArray[np.int16]:
    params = server.service.voices.parameters(None) | {"manual_seed": SEED}
    return to_int16(server.chat.infer(text, skip_refine_text=True, params_infer_code=params)[0])


def post(server: RunningServer, path: str = "/v1/audio/speech", **fields: Any) -> httpx.Response:
    body = {"input": TEXT, "seed": SEED, "response_format": "pcm", **fields}
    return httpx.post(server.url + path, json=body, timeout=60)


def is_near(audio: bytes, expected: NDArray[np.int16]) -> bool:
    """Return whether the sound is that, up to rounding."""
    found = np.frombuffer(audio, "<i2").astype(int)
    return len(found) == len(expected) and int(np.abs(found - expected).max()) <= 1


@pytest.mark.slow
def test_the_saying_is_spoken_and_told(server: RunningServer) -> None:
    said, plain = offline(server, SAID), offline(server, TEXT)
    for stream in (True, False):
        answer = post(server, lexicon=LEXICON, stream=stream)
        assert is_near(answer.content, said)
        assert answer.headers["x-lexicon"] == "1"
    # The result cache knows a request with another lexicon.
    answer = post(server)
    assert is_near(answer.content, plain)
    assert "x-lexicon" not in answer.headers


def test_json_tells_where(server: RunningServer) -> None:
    answer = post(server, lexicon=LEXICON, stream_format="sse")
    *_, done = [json.loads(b.removeprefix("data: ")) for b in answer.text.split("\n\n")[:-1]]
    assert done["lexicon"] == [USE]
    items = [{"input": TEXT}, {"input": TEXT, "lexicon": {}}]
    answer = post(server, "/v1/audio/speech/batch", items=items, lexicon=LEXICON)
    first, second = answer.json()["data"]
    assert (first["lexicon"], second["lexicon"]) == ([USE], None)


@pytest.mark.slow
def test_a_server_has_a_default_which_requests_extend(server: RunningServer) -> None:
    default = Lexicon.of({"nginx": "a thing", "went": "walked"})
    with running_server(extend=EXTEND, chat=server.chat, warm=False, lexicon=default) as other:
        assert is_near(post(other).content, offline(server, "We walked to a thing."))
        answer = post(other, lexicon=LEXICON)
        assert is_near(answer.content, offline(server, "We walked to engine x."))
        assert answer.headers["x-lexicon"] == "2"
        said = offline(server, "We walked to a thing.")
        plain = httpx.get(
            f"{other.url}/tts", params={"text": TEXT, "seed": SEED, "format": "pcm"}, timeout=60
        )
        assert is_near(plain.content, said)


@pytest.mark.parametrize(
    ("lexicon", "message"),
    [
        ({"nginx": ""}, "lexicon entry 'nginx': the saying is empty"),
        ({"nginx": "ˈɛn"}, "lexicon entry 'nginx': .*phonemes"),
        ({"nginx": "x" * 200, "we": "y" * 200, "went": "z" * 200}, "with its lexicon applied"),
    ],
)
def test_a_bad_lexicon_is_one_error(
    lexicon: dict[str, str], message: str, server: RunningServer
) -> None:
    answer = post(server, lexicon=lexicon, input="We went to nginx. " * 40)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) in ((400, "lexicon"), (413, "lexicon"))
    assert re.search(message, error["message"])


def test_a_voice_of_letters_takes_no_phonemes() -> None:
    chat = Chat()
    chat.load_or_raise("custom", custom_path=DATA / "model-a", device="cpu", use_vllm=True)
    with running_server(extend=EXTEND, chat=chat, warm=False) as letters:
        answer = post(letters, lexicon={"nginx": "/ˈɛn/"})
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "lexicon")
        assert "lexicon entry 'nginx': this voice reads letters" in error["message"]
    chat.unload()


@pytest.mark.slow
def test_a_socket(server: RunningServer) -> None:
    with speaker(server) as socket:
        socket.say("session.config", lexicon={"nginx": 5})
        assert "'nginx'" in socket.until("error")["error"]["message"]
        socket.say("session.config", lexicon=LEXICON, seed=SEED)
        socket.say("input.text", text="It was cold last night, and there was snow. " + TEXT)
        socket.say("input.flush")
        text = socket.until("audio.done")["text"]
        first, second = socket.all("text.spoken")
        assert "lexicon" not in first
        [use] = second["lexicon"]
        assert text[use["start_character"] : use["end_character"]] == "nginx"


@pytest.mark.slow
def test_riva(server: RunningServer) -> None:
    with connected(server) as client:
        whole = client.speech.synthesize(TEXT, custom_dictionary=LEXICON, **NATIVE)
        assert is_near(samples(whole.audio).tobytes(), offline(server, SAID))
        with pytest.raises(grpc.RpcError, match="phonemes"):
            client.speech.synthesize(TEXT, custom_dictionary={"nginx": "ˈɛn"}, **NATIVE)


@pytest.mark.parametrize(
    ("written", "entries"),
    [
        ("", {}),
        ("nginx  engine x", LEXICON),
        ("nginx  engine x, new york   big apple,", {**LEXICON, "new york": "big apple"}),
    ],
)
def test_a_dictionary_of_riva(written: str, entries: dict[str, str]) -> None:
    assert parse_dictionary(written) == Lexicon.of(entries)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("a b", "'a b' must be a word and its pronunciation"),
        ("nginx  engine x,,foo", "'foo' must be a word"),
        ("a  b,a  c", "'a' appears twice"),
        ("tomato  /t @/", "'tomato': .*no sound for '@'"),
    ],
)
def test_a_bad_dictionary_names_the_pair(written: str, message: str) -> None:
    with pytest.raises(BadRequestError, match=message):
        parse_dictionary(written)
