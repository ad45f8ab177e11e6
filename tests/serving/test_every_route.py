"""What holds on every route of HTTP, also of the vendors: HEAD, hosts, origins, bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from ChatTTS.serving.settings import Limits

from ..support.script_tools import SCRIPTS, ToneModel, get, post, tone_server
from ..support.server_tools import WholeServer
from ..support.serving_tools import PATIENCE, eventually

Route = tuple[str, str]
PATHS = {"{id}": "script-" + "0" * 24, "{name}": "nobody", "{model}": "tts-1"}
# Those that the description of the server does not have.
UNLISTED: list[Route] = [
    *(("GET", path) for path in ("/v1/voices", "/v2/voices", "/v1/voices/edith", "/v1/user")),
    *(("GET", path) for path in ("/voices", "/voices/edith", "/v1/audio/list_voices", "/")),
    ("GET", "/openapi.json"),
    *(("POST", f"/v1/text-to-speech/edith{end}") for end in ("", "/stream", "/with-timestamps")),
    *(("POST", path) for path in ("/v1/speak", "/tts/bytes", "/tts/sse")),
    ("POST", "/v1/realtime/synthesis_sessions"),
]
BODY = {"input": "a", "text": "a", "transcript": "a", "script": "a", "items": [{"input": "a"}]}


@pytest.fixture(scope="module")
def serving(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[WholeServer, ToneModel]]:
    limits = replace(Limits(), characters=1000)
    with tone_server(tmp_path_factory.mktemp("routes"), limits=limits) as (server, model):
        yield server, model


@pytest.fixture
def client(serving: tuple[WholeServer, ToneModel]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=serving[0].url, timeout=PATIENCE) as client:
        yield client


def routes(client: httpx.Client) -> list[Route]:
    """Return all routes, with names in their places."""
    found = [*UNLISTED]
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for place, name in PATHS.items():
            path = path.replace(place, name)
        found += [(method.upper(), path) for method in methods]
    assert len(found) > 35
    return found


def test_head_is_get_without_the_body(client: httpx.Client) -> None:
    for method, path in routes(client):
        head = client.head(path, params={"text": "a"} if path == "/tts" else None)
        assert head.content == b"", path
        if method == "GET" and path not in ("/tts", "/metrics", "/v1/status"):
            got = client.get(path)
            assert head.status_code == got.status_code, path
            for name in ("content-length", "content-type"):
                assert head.headers.get(name) == got.headers.get(name), path
        elif method == "POST":
            assert head.status_code in (200, 404, 405), path


def test_the_head_of_events_does_not_wait_for_them(
    serving: tuple[WholeServer, ToneModel], client: httpx.Client
) -> None:
    server, model = serving
    model.may_go_on.clear()
    try:
        name = post(server, "Hello there.").json()["id"]
        assert client.head(f"{SCRIPTS}/{name}/events").status_code == 200
        # On the same connection, which a stream would keep.
        assert client.get(f"{SCRIPTS}/{name}").json()["state"] == "running"
        assert get(server, f"/{name}").status_code == 200
    finally:
        model.may_go_on.set()
    assert eventually(lambda: get(server, f"/{name}").json()["state"] == "done")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil"])
def test_a_foreign_host_is_refused_everywhere(host: str, client: httpx.Client) -> None:
    for method, path in routes(client):
        answer = client.request(method, path, headers={"Host": host, "X-Forwarded-Host": "a"})
        assert answer.status_code == 403, path
        assert client.head(path, headers={"Host": host}).status_code == 403, path


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.evil.example"},
    ],
)
def test_a_foreign_page_changes_and_speaks_nothing(
    headers: dict[str, str], serving: tuple[WholeServer, ToneModel], client: httpx.Client
) -> None:
    model = serving[1]
    model.jobs.clear()
    # The kinds that browsers send without asking before.
    simple = headers | {"Content-Type": "text/plain"}
    for method, path in routes(client):
        content = json.dumps(BODY) if method == "POST" else None
        answer = client.request(method, path, headers=simple, content=content)
        assert "access-control-allow-origin" not in answer.headers, path
        if method != "GET" or path == "/tts":
            assert answer.status_code == 403, path
    assert model.said == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["multipart/mixed", "multipart/x; boundary=a", "text/plain", ""])
@pytest.mark.parametrize("path", [SCRIPTS, "/tts", "/v1/speak", "/v1/text-to-speech/edith"])
def test_json_by_another_name_has_the_limits_of_json(
    path: str, kind: str, client: httpx.Client
) -> None:
    content = b'{"text": "a", "script": "a", "x": [' + b"[]," * 600_000 + b"[]]}"
    headers = {"Content-Type": kind} if kind else {}
    answer = client.post(path, content=content[: 1 << 20], headers=headers)
    assert answer.status_code in (400, 413)
    if path == SCRIPTS:
        answer = client.post(path, content=content, headers=headers)
        assert answer.status_code == 413
        assert "commas and brackets" in answer.text


def test_protocols_of_json_take_no_forms(client: httpx.Client) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=a"}
    for path in ("/v1/speak", "/v1/text-to-speech/edith", "/tts/bytes"):
        answer = client.post(path, content=json.dumps(BODY), headers=headers)
        assert answer.status_code == 400, path
        assert "not a form" in answer.text
