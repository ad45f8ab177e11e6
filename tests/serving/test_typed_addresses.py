"""``/tts`` in the address line of a browser that does not say where a request comes from."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import httpx
import pytest

from ..support.serving_tools import RunningServer, running_server

# What Chromium and Firefox send for http://nas.local/..., typed or opened by any page.
OPENED = {
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    "accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "accept-language": "en-US,en;q=0.5",
    "upgrade-insecure-requests": "1",
}
TEXT = '"Good" <night> & more'


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(names=("nas.local",)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as one:
        yield one


def spoken(server: RunningServer) -> float:
    metrics = server.service.metrics.registry.get_sample_value
    return metrics("chattts_latency_seconds_count") or 0.0


@pytest.mark.slow
def test_the_user_is_asked_and_the_button_speaks(
    server: RunningServer, client: httpx.Client
) -> None:
    before = spoken(server)
    page = client.get("/tts", params={"text": TEXT, "seed": 3}, headers=OPENED)
    assert (page.status_code, page.headers["content-type"]) == (403, "text/html; charset=utf-8")
    assert spoken(server) == before
    assert "<night>" not in page.text
    fields = {
        html.unescape(name): html.unescape(value)
        for name, value in re.findall(r'name="([^"]*)" value="([^"]*)"', page.text)
    }
    assert fields == {"text": TEXT, "seed": "3"}
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "same-origin"
    pressed = {**OPENED, "referer": str(page.url)}
    sound = client.get("/tts", params=fields, headers=pressed)
    assert (sound.status_code, sound.headers["content-type"]) == (200, "audio/wav")
    assert sound.content == client.get("/tts", params=fields).content


@pytest.mark.parametrize(
    "told",
    [
        {"accept": "*/*"},  # <audio src>, <img>, fetch
        {"accept": "audio/webm,audio/ogg,audio/wav,audio/*;q=0.9,*/*;q=0.5"},
        {"referer": "http://evil.example/"},
        {"origin": "http://evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"host": "evil.example"},
    ],
)
def test_others_are_refused_without_a_page(client: httpx.Client, told: dict[str, str]) -> None:
    answer = client.get("/tts", params={"text": TEXT}, headers=OPENED | told)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "foreign_page"


def test_other_addresses_say_what_to_do(client: httpx.Client) -> None:
    for method, path in (("GET", "/v1/audio/voices"), ("POST", "/tts"), ("HEAD", "/tts?text=a")):
        answer = client.request(method, path, headers=OPENED)
        assert answer.status_code == 403
        assert method == "HEAD" or "the server's page (/)" in answer.json()["error"]["message"]


def test_it_is_counted_as_a_refusal(server: RunningServer, client: httpx.Client) -> None:
    def refused() -> float:
        found = server.service.metrics.registry.get_sample_value
        return found("chattts_refused_total", {"code": "foreign_page"}) or 0.0

    before = refused()
    client.get("/tts", params={"text": TEXT}, headers=OPENED)
    assert refused() == before + 1


@pytest.mark.slow
def test_where_there_are_keys_or_any_origin_nothing_is_asked() -> None:
    for settings, status in (({"api_keys": ("k",)}, 403), ({"cors_origins": ("*",)}, 200)):
        with running_server(**settings) as server:  # type: ignore[arg-type]
            answer = httpx.get(f"{server.url}/tts?text=Hello.", headers=OPENED, timeout=60)
            assert answer.status_code == status
            assert "text/html" not in answer.headers["content-type"]
