"""REST beside the speech itself: errors, keys, limits, voices, models, the page."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ChatTTS.config.request_fields import Priority
from ChatTTS.params import InferCodeParams
from ChatTTS.serving.protocols.rest.page import WEB
from ChatTTS.serving.speech.local_model import LocalModel

from ..support.serving_tools import RunningServer, running_server, with_limits

TEXT = "Hello there."
PAGE = "https://page.example"
KEYS = ("first-key", "second-key")
UPLOAD_BYTES = 200_000


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server with default settings, except for its result cache."""
    with running_server(result_cache_bytes=1 << 20) as running:
        yield running


@pytest.fixture(scope="module")
def strict(server: RunningServer) -> Iterator[RunningServer]:
    """A server with keys and small limits; it is not ready, since it was not warmed up."""
    limits = with_limits(
        running=1,
        waiting=2,
        waiting_per_client=1,
        characters=40,
        batch_items=2,
        message_bytes=4096,
        upload_bytes=UPLOAD_BYTES,
        voices=1,
    )
    with running_server(
        chat=server.chat, warm=False, api_keys=KEYS, cors_origins=(PAGE,), **limits
    ) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30) as client:
        yield client


@pytest.fixture
def keyed(strict: RunningServer) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {KEYS[1]}"}
    with httpx.Client(base_url=strict.url, timeout=30, headers=headers) as client:
        yield client


def ask(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"model": "tts-1", "input": TEXT, "response_format": "pcm", **fields}
    return client.post("/v1/audio/speech", json=body)


def error_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the error of an answer, after checking its fields."""
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    return error


# ------------------------------------------------------------------ errors


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/audio/speech", "/refine"])
@pytest.mark.parametrize("body", [b"{", b'{"input": "\xff"}'])
def test_a_body_that_is_no_json(client: httpx.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert error_of(answer)["message"] == "the body is not valid JSON"


@pytest.mark.parametrize(
    ("fields", "status", "param", "code"),
    [
        ({"input": ""}, 400, "input", "invalid_request"),
        ({"input": " \n"}, 400, "input", "invalid_request"),
        ({"input": None}, 400, "input", "invalid_request"),
        ({"input": "\ud800"}, 400, "input", "invalid_request"),
        ({"speed": 5}, 400, "speed", "invalid_request"),
        ({"voice": 3}, 400, "voice", "invalid_request"),
        ({"voice": "nobody"}, 400, "voice", "voice_not_found"),
        ({"voice": "../../etc/passwd"}, 400, "voice", "voice_not_found"),
        ({"voice": {"id": "..%2fx"}}, 400, "voice", "voice_not_found"),
        ({"response_format": "gif"}, 400, "response_format", "invalid_request"),
        ({"sample_rate": 7999}, 400, "sample_rate", "invalid_request"),
        ({"seed": 2**63}, 400, "seed", "invalid_request"),
        ({"top_p": 0}, 400, "top_p", "invalid_request"),
        ({"language": "fr"}, 400, "language", "invalid_request"),
        ({"ref_audio": "aaaa"}, 400, "ref_text", "invalid_request"),
        ({"ref_audio": "?", "ref_text": "x"}, 400, "ref_audio", "invalid_request"),
        ({"ref_audio": "aaaa", "ref_text": "x"}, 400, "ref_audio", "invalid_request"),
        ({"model": 4}, 400, "model", "invalid_request"),
        ({"input": "a" * 10_001}, 413, "input", "request_too_large"),
    ],
)
def test_bad_fields(
    client: httpx.Client, fields: dict[str, Any], status: int, param: str, code: str
) -> None:
    body = {"input": TEXT, **fields}
    answer = client.post(
        "/v1/audio/speech",
        content=json.dumps(body),
        headers={"content-type": "application/json"},
    )
    assert answer.status_code == status
    error = error_of(answer)
    assert (error["param"], error["code"]) == (param, code)
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 4000, b""])
def test_bad_bodies(client: httpx.Client, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    for path in ("/v1/audio/speech", "/tts", "/refine"):
        answer = client.post(path, content=content, headers=headers)
        assert answer.status_code == 400
        error_of(answer)


def test_bad_addresses(client: httpx.Client) -> None:
    nowhere = client.get("/v1/nothing")
    assert (nowhere.status_code, error_of(nowhere)["code"]) == (404, "not_found")
    wrong = client.put("/v1/audio/speech")
    assert (wrong.status_code, error_of(wrong)["code"]) == (405, "method_not_allowed")
    assert wrong.headers["allow"] == "POST"


def test_an_unknown_failure_tells_nothing(
    client: httpx.Client,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("a secret of the server")

    monkeypatch.setattr(server.service, "speak", fail)
    answer = ask(client, stream=False)
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert error_of(answer)["type"] == "server_error"
    assert "a secret of the server" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text


def test_request_ids(client: httpx.Client) -> None:
    for path in ("/health", "/nothing", "/v1/models"):
        assert client.get(path, headers={"x-request-id": "mine-1"}).headers["x-request-id"] == (
            "mine-1"
        )
    first, second = (client.get("/health").headers["x-request-id"] for _ in range(2))
    assert first != second
    for bad in ("", "a b", "x" * 65, "a;b"):
        assert client.get("/health", headers={"x-request-id": bad}).headers["x-request-id"] != bad


def test_the_log_has_the_request_and_not_its_text(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="ChatTTS.serving")
    client.post("/v1/audio/speech", json={"input": TEXT}, headers={"x-request-id": "logged"})
    lines = [r.getMessage() for r in caplog.records if "logged" in r.getMessage()]
    assert len(lines) == 1
    assert 'interface="rest"' in lines[0]
    assert 'finish="length"' in lines[0]
    assert "Hello" not in caplog.text


# ------------------------------------------------------------------ keys and pages


@pytest.mark.slow
def test_keys(strict: RunningServer, keyed: httpx.Client) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEYS[0][:-1]}):
        for path in ("/v1/models", "/v1/audio/voices", "/tts?text=a", "/openapi.json", "/nothing"):
            answer = httpx.get(strict.url + path, headers=headers)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert error_of(answer)["type"] == "authentication_error"
        assert httpx.post(f"{strict.url}/v1/audio/speech", headers=headers).status_code == 401
    assert ask(keyed).status_code == 200
    for path in ("/", "/static/api.js", "/health", "/metrics", "/v1/status"):
        assert httpx.get(strict.url + path).status_code == 200


def test_pages_of_other_hosts(strict: RunningServer, keyed: httpx.Client) -> None:
    headers = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
    }
    preflight = httpx.options(f"{strict.url}/v1/audio/speech", headers=headers)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == PAGE
    refused = httpx.get(f"{strict.url}/v1/models", headers={"Origin": PAGE})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == PAGE
    assert "x-seed" in refused.headers["access-control-expose-headers"]
    other = keyed.get("/v1/models", headers={"Origin": "https://other.example"})
    assert "access-control-allow-origin" not in other.headers


def test_pages_of_other_hosts_change_nothing(client: httpx.Client, keyed: httpx.Client) -> None:
    foreign = {"Sec-Fetch-Site": "cross-site", "Origin": PAGE}
    answer = client.delete("/v1/audio/voices/clara", headers=foreign)
    assert (answer.status_code, error_of(answer)["code"]) == (403, "foreign_page")
    assert keyed.delete("/v1/audio/voices/clara", headers=foreign).status_code == 404


# ------------------------------------------------------------------ limits


def test_limits_of_size(strict: RunningServer, keyed: httpx.Client) -> None:
    most = strict.settings.limits
    long_text = ask(keyed, input="a" * 41)
    assert (long_text.status_code, error_of(long_text)["param"]) == (413, "input")
    items = [{"input": TEXT}] * 3
    many = keyed.post("/v1/audio/speech/batch", json={"items": items})
    assert (many.status_code, error_of(many)["param"]) == (413, "items")
    long_items = [{"input": "a" * 81}] * 2
    long_batch = keyed.post("/v1/audio/speech/batch", json={"items": long_items})
    assert (long_batch.status_code, error_of(long_batch)["param"]) == (413, "items")

    def pieces() -> Iterator[bytes]:  # without a Content-Length
        for _ in range(most.message_bytes // 100 + 1):
            yield b"a" * 100

    for content in (b"a" * (most.message_bytes + 1), pieces()):
        big = keyed.post("/refine", content=content)
        assert (big.status_code, error_of(big)["code"]) == (413, "request_too_large")
    lying = {"Content-Length": "10", "Content-Type": "application/json"}
    assert keyed.post("/refine", content=b"a" * 10, headers=lying).status_code == 400


def test_the_place_of_a_recording_is_not_for_millions_of_values(client: httpx.Client) -> None:
    for path, content in (
        ("/v1/audio/speech", b'{"input": [' + b"[]," * 100_000 + b"[]]}"),
        ("/v1/audio/speech/batch", b'{"items": [' + b'{"input": "a"},' * 100_000 + b"{}]}"),
    ):
        answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert "commas" in error_of(answer)["message"]


def test_limits_of_recordings(keyed: httpx.Client) -> None:
    form = {"name": "big", "consent": "yes", "ref_text": TEXT}
    for size in (UPLOAD_BYTES + 1, UPLOAD_BYTES * 2):
        files = {"audio_sample": ("a.wav", b"a" * size)}
        answer = keyed.post("/v1/audio/voices", data=form, files=files)
        assert (answer.status_code, error_of(answer)["code"]) == (413, "request_too_large")


def test_overload_is_answered_at_once(strict: RunningServer, keyed: httpx.Client) -> None:
    admission = strict.service.admission

    def enter(client: str) -> Any:
        return admission.enter(client=client, priority=Priority.INTERACTIVE, cost=1, deadline=None)

    me = strict.call(lambda: [enter("a"), enter("b"), enter("c")])
    try:
        refused = ask(keyed)
        assert (refused.status_code, error_of(refused)["code"]) == (503, "server_overloaded")
        assert int(refused.headers["retry-after"]) >= 1
        strict.call(me[2].release)
        name = strict.call(lambda: _client_name(strict))
        me.append(strict.call(lambda: enter(name)))
        own = ask(keyed)
        assert (own.status_code, error_of(own)["code"]) == (429, "rate_limit_exceeded")
        assert error_of(own)["type"] == "rate_limit_error"
        assert int(own.headers["retry-after"]) >= 1
    finally:
        for ticket in me:
            strict.call(ticket.release)
    assert strict.becomes_idle()


def _client_name(server: RunningServer) -> str:
    """Return the name of the client with the second key."""
    from ChatTTS.serving.http.auth import Authenticator

    return Authenticator(server.settings.api_keys).client(f"Bearer {KEYS[1]}", "")


# ------------------------------------------------------------------ voices


def speaker_string(server: RunningServer) -> str:
    return server.chat.config.defaults.speakers["edith"]


def test_the_life_of_a_voice(client: httpx.Client, server: RunningServer) -> None:
    form = {"name": "anna_2", "consent": "Anna agreed.", "speaker": speaker_string(server)}
    made = client.post("/v1/audio/voices", data=form)
    assert made.status_code == 200, made.text
    assert made.json()["uploaded"]
    voices = {v["id"]: v for v in client.get("/v1/audio/voices").json()["voices"]}
    assert voices["anna_2"]["uploaded"]
    assert not voices["edith"]["uploaded"]
    assert voices["alloy"]["kind"] == "alias"
    folder = server.settings.voices
    assert folder is not None
    kept = json.loads((folder / "anna_2.json").read_text())
    assert kept["consent"].endswith(": Anna agreed.")
    assert ask(client, voice="anna_2", seed=1).content == ask(client, voice="edith", seed=1).content
    gone = client.delete("/v1/audio/voices/anna_2")
    assert gone.json() == {"id": "anna_2", "object": "audio.voice.deleted", "deleted": True}
    assert not list(folder.iterdir())
    assert ask(client, voice="anna_2").status_code == 400
    again = client.delete("/v1/audio/voices/anna_2")
    assert (again.status_code, error_of(again)["code"]) == (404, "voice_not_found")
    assert client.delete("/v1/audio/voices/alloy").status_code == 404


def test_a_recording_becomes_a_voice(client: httpx.Client, server: RunningServer) -> None:
    words = "Hello there, my dear old friend. How are you? We went home."
    sound = ask(client, input=words, response_format="wav", seed=7).content
    form = {"name": "friend", "consent": "true", "ref_text": words}
    files = {"audio_sample": ("friend.wav", sound, "audio/wav")}
    made = client.post("/v1/audio/voices", data=form, files=files)
    assert made.status_code == 200, made.text
    assert made.json()["kind"] == "sample"
    voice = server.service.voices.parameters("friend")
    assert voice["txt_smp"] == words
    assert client.delete("/v1/audio/voices/friend").status_code == 200


def test_tags_have_names(client: httpx.Client, server: RunningServer) -> None:
    tags = client.get("/v1/audio/tags").json()["tags"]
    assert {"tag": "[laugh]", "name": "laughter", "kind": "sound"} in tags
    listed = {tag["tag"] for tag in tags}
    assert server.chat.tokenizer.control_tokens - listed > {"[Stts]", "[spk_emb]", "[CLS]"}


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"name": "../x"}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({"name": "con"}, "name"),
        ({"consent": "false"}, "consent"),
        ({"consent": " "}, "consent"),
        ({"speaker": "not a speaker"}, "speaker"),
        ({"speaker": "\u4e00" * 40}, "speaker"),  # valid characters, but no vector
        ({"speaker": None}, "audio_sample"),
    ],
)
def test_voices_that_are_refused(
    client: httpx.Client, server: RunningServer, changes: dict[str, Any], param: str
) -> None:
    form = {"name": "anna", "consent": "yes", "speaker": speaker_string(server), **changes}
    answer = client.post(
        "/v1/audio/voices", data={name: v for name, v in form.items() if v is not None}
    )
    assert answer.status_code == 400
    assert error_of(answer)["param"] == param
    folder = server.settings.voices
    assert folder is not None
    assert not list(folder.glob("*"))


def test_names_that_are_paths_delete_nothing(client: httpx.Client, server: RunningServer) -> None:
    folder = server.settings.voices
    assert folder is not None
    beside = folder.parent / f"{folder.name}-beside.json"
    beside.write_text("{}")
    try:
        for name in (f"..%2f{beside.stem}", f"%2e%2e%2f{beside.stem}", "..", "%00", "a%0a"):
            answer = client.delete(f"/v1/audio/voices/{name}")
            assert answer.status_code in (400, 404, 405), name
        assert beside.exists()
    finally:
        beside.unlink()


def test_a_damaged_voice_is_not_the_clients_fault(
    client: httpx.Client, server: RunningServer
) -> None:
    folder = server.settings.voices
    assert folder is not None
    damaged = folder / "damaged.json"
    damaged.write_text("{}")
    try:
        answer = ask(client, voice="damaged")
        assert answer.status_code == 500
        assert "damaged" in error_of(answer)["message"]
        assert str(folder) not in answer.text
    finally:
        damaged.unlink()


def test_no_more_voices_than_the_limit(strict: RunningServer, keyed: httpx.Client) -> None:
    form = {"consent": "yes", "speaker": speaker_string(strict)}
    assert keyed.post("/v1/audio/voices", data=form | {"name": "one"}).status_code == 200
    assert keyed.post("/v1/audio/voices", data=form | {"name": "one"}).status_code == 200
    assert keyed.post("/v1/audio/voices", data=form | {"name": "two"}).status_code == 413


# ------------------------------------------------------------------ models, the page


def test_models(client: httpx.Client) -> None:
    names = [model["id"] for model in client.get("/v1/models").json()["data"]]
    assert {"chattts", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"} <= set(names)
    assert [model["id"] for model in client.get("/v1/audio/models").json()["models"]] == names
    assert client.get("/v1/models/tts-1").json()["object"] == "model"
    assert error_of(client.get("/v1/models/other"))["code"] == "model_not_found"


def test_readiness(client: httpx.Client, strict: RunningServer) -> None:
    assert client.get("/health").json() == {"status": "ok", "model": "loaded"}
    assert client.get("/ready").json() == {"status": "ready", "model": "loaded", "unrecorded": 0}
    unready = httpx.get(f"{strict.url}/ready")
    assert (unready.status_code, unready.json()["status"]) == (503, "starting")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalModel, "unrecorded", 35)
        told = client.get("/ready")
    assert (told.status_code, told.json()["unrecorded"]) == (200, 35)
    status = client.get("/v1/status").json()
    assert (status["state"], status["running"], status["waiting"]) == ("ready", 0, 0)
    assert (status["limit"], status["max_characters"]) == (16, 10_000)


@pytest.mark.slow
def test_results_are_kept(
    client: httpx.Client, server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.chat, "InferCodeParams", InferCodeParams)  # what is cut is not kept
    first = ask(client, seed=11)
    hits = server.service.results.counts.hits
    again = ask(client, seed=11)
    assert server.service.results.counts.hits == hits + 1
    assert again.content == first.content
    assert ask(client, seed=12).content != first.content


def test_page(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    known = client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    for path in WEB.iterdir():
        if path.is_file():
            assert client.get(f"/static/{path.name}").content == path.read_bytes()
    for name in ("nothing.js", "..%2fpage.py", "%2e%2e/page.py", "", "index.html%00"):
        assert client.get(f"/static/{name}").status_code == 404


@pytest.mark.slow
def test_description(client: httpx.Client, keyed: httpx.Client) -> None:
    api = keyed.get("/openapi.json").json()
    ids = []
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            where = f"{method} {path}"
            assert operation["summary"], where
            ids.append(operation["operationId"])
            assert "422" not in operation["responses"], where
            if operation["tags"] != ["operations"]:
                for status in ("400", "401", "503"):
                    schema = operation["responses"][status]["content"]["application/json"]["schema"]
                    assert schema == {"$ref": "#/components/schemas/ErrorBody"}, where
                assert operation["security"], where
    assert len(ids) == len(set(ids))
    content = api["paths"]["/v1/audio/speech"]["post"]["responses"]["200"]["content"]
    assert {"audio/mpeg", "audio/pcm", "text/event-stream"} <= set(content)
    timed = {"schema": {"$ref": "#/components/schemas/TimedSpeech"}}
    assert content["application/json"] == timed
    assert "application/json" not in api["paths"]["/tts"]["get"]["responses"]["200"]["content"]
    assert all({"schema"} <= set(kind) <= {"schema", "example"} for kind in content.values())
    assert client.get("/docs").status_code == 404
    unlocked = client.get("/openapi.json").json()["paths"]
    assert not any("security" in op for methods in unlocked.values() for op in methods.values())
