"""A page of one host in Chromium, and the server of another one."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from ...support.serving_tools import RunningServer, eventually, running_server
from ...support.websocket_tools import EXTEND

pytestmark = pytest.mark.slow  # a browser costs a second of a core for each

# Two hosts of a site, and a name that is no loopback name: to that one Chromium sends no site.
SPEECH, SIBLING = "speech.example", "page.speech.example"
ATTACK = """async (server) => {
    const tag = (name, fields) => {
        const element = Object.assign(document.createElement(name), fields);
        document.body.append(element);
        return new Promise(done => {
            element.onload = element.onerror = element.onloadeddata = done;
            setTimeout(done, 3000);
        });
    };
    const address = server + '/tts?text=attack';
    const form = {method: 'POST', mode: 'no-cors', body: new URLSearchParams({text: 'attack'})};
    await Promise.allSettled([
        tag('audio', {src: address, preload: 'auto'}),
        tag('audio', {src: address, preload: 'auto', referrerPolicy: 'no-referrer'}),
        tag('img', {src: address, referrerPolicy: 'no-referrer'}),
        tag('iframe', {src: address, referrerPolicy: 'no-referrer'}),
        fetch(address, {mode: 'no-cors', referrerPolicy: 'no-referrer'}),
        fetch(server + '/tts', form),
        new Promise(done => {
            const socket = new WebSocket(server.replace('http', 'ws') + '/v1/audio/speech/stream');
            socket.onopen = () => document.title = 'open';
            socket.onclose = done;
        }),
    ]);
}"""


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<body></body>")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def foreign_port() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server(extend=EXTEND, names=(SPEECH,)) as server:
        yield server


@pytest.mark.parametrize(
    ("foreign", "own"),
    [("evil.example", SPEECH), (SIBLING, SPEECH), ("localhost", "localhost"),
     ("127.0.0.1", "localhost"), ("evil.example", "127.0.0.1")],
)  # fmt: skip
def test_a_foreign_page_has_nothing_spoken(
    server: RunningServer, browser: Browser, foreign_port: int, foreign: str, own: str
) -> None:
    spoken = finished(server)
    refused = refusals(server)
    page = browser.new_page()
    page.goto(f"http://{foreign}:{foreign_port}/")
    port = server.address.partition(":")[2]
    page.evaluate(ATTACK, f"http://{own}:{port}")
    assert page.title() != "open"
    page.close()
    assert eventually(lambda: refusals(server) - refused >= 7, 10)
    assert finished(server) == spoken


@pytest.mark.parametrize("own", [SPEECH, "localhost", "127.0.0.1"])
def test_the_own_page_speaks(server: RunningServer, browser: Browser, own: str) -> None:
    page = browser.new_page()
    page.goto(f"http://{own}:{server.address.partition(':')[2]}/")
    assert page.evaluate("async () => (await fetch('/tts?text=Hello.')).status") == 200
    asked = "{method: 'POST', body: new URLSearchParams({text: 'Hello.'})}"
    assert page.evaluate(f"async () => (await fetch('/tts', {asked})).status") == 200
    page.close()


def test_the_user_is_asked_where_the_browser_does_not_tell_who_asks(
    server: RunningServer, browser: Browser, foreign_port: int
) -> None:
    """As for the address of another machine without TLS: typed, or opened by a foreign page."""
    address = f"http://{SPEECH}:{server.address.partition(':')[2]}/tts?text=Hello."
    spoken, page = finished(server), browser.new_page()
    page.goto(f"http://evil.example:{foreign_port}/")
    opening = "(address) => { const link = document.createElement('a'); link.href = address;"
    with page.expect_navigation():
        page.evaluate(opening + "link.referrerPolicy = 'no-referrer'; link.click(); }", address)
    assert page.get_by_role("button", name="Speak").is_visible()
    assert finished(server) == spoken
    page.goto(address)
    assert "Hello." in page.inner_text("blockquote")
    assert finished(server) == spoken
    with page.expect_response(lambda answer: answer.status == 200):
        page.get_by_role("button", name="Speak").click(no_wait_after=True)
    assert eventually(lambda: finished(server) > spoken)
    page.close()


def test_a_page_cannot_rebind_its_name(server: RunningServer, browser: Browser) -> None:
    page = browser.new_page()
    answer = page.goto(f"http://evil.example:{server.address.partition(':')[2]}/v1/status")
    assert answer is not None
    assert answer.status == 403
    page.close()


def refusals(server: RunningServer) -> float:
    labels = {"code": "foreign_page"}
    registry = server.service.metrics.registry
    return registry.get_sample_value("chattts_refused_total", labels) or 0.0


def finished(server: RunningServer) -> float:
    """Return the number of requests that were spoken."""
    metrics = server.service.metrics.registry.get_sample_value
    return metrics("chattts_latency_seconds_count") or 0.0
