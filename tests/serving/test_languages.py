"""Languages: the built-in ones, and one that a program registers, at every interface."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
import riva.client.proto.riva_tts_pb2 as tts

from ChatTTS.core import Chat
from ChatTTS.errors import ConfigError
from ChatTTS.languages import LANGUAGES, find_language, known_languages, language_choice
from ChatTTS.serving.protocols.elevenlabs import add_to as add_elevenlabs
from ChatTTS.serving.protocols.riva.realtime import add_to as add_realtime
from ChatTTS.serving.protocols.wyoming.description import describe
from ChatTTS.serving.replicas.options import LoadOptions
from ChatTTS.text import Normalizer
from ChatTTS.text.named_functions import register_named

from ..support.riva_tools import NATIVE, connected, samples
from ..support.serving_tools import RunningServer, running_server
from ..support.websocket_tools import EXTEND, speaker

SAID = "Good morning."
KNOWN = "en, zh or fr"


def read_french(text: str) -> str:
    """Return what is said for a text of "French"; the tests know one."""
    return text.replace("Bonjour", "Good morning")


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server whose ``Chat`` reads French, too."""
    extend = (*EXTEND, add_realtime, add_elevenlabs)
    with running_server(extend=extend) as running:
        assert running.chat.normalizer.register("fr", read_french)
        yield running


def post(server: RunningServer, path: str = "/v1/audio/speech", **fields: Any) -> httpx.Response:
    body = {"input": "Bonjour.", "seed": 5, "response_format": "pcm"} | fields
    return httpx.post(server.url + path, json=body, timeout=60)


@pytest.fixture(scope="module")
def said(server: RunningServer) -> bytes:
    """The sound of what the French text says."""
    return post(server, input=SAID).content


def test_names_of_languages() -> None:
    known = known_languages(["fr", "en"])
    assert known == ("en", "zh", "fr")
    names = (None, "", "en", "EN_us", "zh-Hans", "fr-CA", "de", "english")
    found = [find_language(name, known) for name in names]
    assert found == [None, None, "en", "en", "zh", "fr", None, None]
    assert [find_language(name, ("pt", "pt-BR")) for name in ("pt_br", "pt-PT")] == ["pt-BR", "pt"]
    assert [language_choice(known[:n]) for n in (1, 2, 3)] == ["en", "en or zh", KNOWN]


@pytest.mark.slow
def test_rest(server: RunningServer, said: bytes) -> None:
    assert post(server, language="fr").content == said
    refused = post(server, language="de")
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "language")
    assert error["message"] == f"language must be {KNOWN}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/audio/refine", {}),
        ("/v1/audio/speech/batch", {"items": [{"input": "Hello."}]}),
        ("/v1/audio/scripts", {"script": "Hello."}),
    ],
)
def test_an_unknown_language_is_refused(
    path: str, fields: dict[str, Any], server: RunningServer
) -> None:
    refused = post(server, path, language="de", **{"response_format": "mp3", **fields})
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "language")
    assert error["message"] == f"language must be {KNOWN}"


def test_an_item_of_a_batch(server: RunningServer) -> None:
    items = [{"input": "Hello."}, {"input": "Hello.", "language": "de"}]
    assert post(server, "/v1/audio/speech/batch", items=items).status_code == 400


def test_the_schema_names_it(server: RunningServer) -> None:
    schema = httpx.get(f"{server.url}/openapi.json").json()
    properties = schema["components"]["schemas"]["SpeechBody"]["properties"]
    assert properties["language"]["anyOf"][0] == {"type": "string", "enum": ["en", "zh", "fr"]}


def test_a_socket(server: RunningServer) -> None:
    with speaker(server) as socket:
        socket.say("session.config", language="de")
        assert socket.until("error")["error"]["message"] == f"language must be {KNOWN}"
        socket.say("session.config", language="fr", seed=5)
        socket.say("input.text", text="Bonjour.")
        socket.say("input.flush")
        assert socket.until("audio.done")["total_samples"] > 0


def test_grpc(server: RunningServer, said: bytes) -> None:
    with connected(server) as client:
        audio = client.speech.synthesize("Bonjour.", language_code="fr-FR", **NATIVE).audio
        assert samples(audio).tobytes() == said
        with pytest.raises(grpc.RpcError, match="use en-US, zh-CN or fr"):
            client.speech.synthesize("Bonjour.", language_code="de-DE", **NATIVE)
        answer = client.stub.GetRivaSynthesisConfig(tts.RivaSynthesisConfigRequest())
        own = server.service.model.config.defaults.language
        codes = {entry.parameters["language_code"] for entry in answer.model_config}
        assert codes == ({LANGUAGES[own].locale} if own else {"en-US", "zh-CN", "fr"})


def test_other_protocols(server: RunningServer, said: bytes) -> None:
    french = {"lang_code": "fr", "stream": False, "return_timestamps": False}
    answer = post(server, "/dev/captioned_speech", **french)
    assert answer.status_code == 200, answer.text
    refused = post(server, "/dev/captioned_speech", lang_code="x")
    told = refused.json()["error"]["message"]
    assert told == "lang_code must be a, b or en, or z or zh, or fr"
    text = {"text": "Bonjour.", "language_code": "fr", "seed": 5}
    path = f"{server.url}/v1/text-to-speech/clara"
    spoken = httpx.post(path, params={"output_format": "pcm_24000"}, json=text, timeout=60)
    assert spoken.content == post(server, input=SAID, voice="clara").content


def test_lists_without_a_language_of_the_voice(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = server.service.model.config.defaults
    monkeypatch.setitem(vars(defaults), "language", None)
    languages = {tuple(v.languages) for v in describe(server.service).tts[0].voices}
    assert languages == {("en", "zh", "fr")}
    [model] = httpx.get(f"{server.url}/v1/models", headers={"xi-api-key": "x"}).json()
    assert [entry["name"] for entry in model["languages"]] == ["English", "Chinese", "fr"]
    assert {*httpx.get(f"{server.url}/v1/audio/list_voices").json()} == {"en-US", "zh-CN", "fr"}


def test_functions_are_registered_by_their_names() -> None:
    normalizer = Normalizer()
    register_named(normalizer, {"fr": f"{__name__}:read_french"})
    assert normalizer("Bonjour.", lang="fr") == "Good morning."
    for place, message in (
        ("tests.nowhere:read", "cannot be imported: ModuleNotFoundError"),
        (f"{__name__}:nothing", "cannot be imported: AttributeError"),
        (f"{__name__}:SAID", "is not a function"),
        ("math:sqrt", "cannot read de: it must take a text"),
    ):
        with pytest.raises(ConfigError, match=message):
            register_named(normalizer, {"de": place})


def test_replicas_register_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Chat, "load_or_raise", lambda self, *args, **options: None)
    normalizers = (("fr", f"{__name__}:read_french"),)
    load = LoadOptions("bundled", None, None, "float32", 1, "1", normalizers=normalizers)
    assert load.load().normalizer.normalizers == {"fr": read_french}
