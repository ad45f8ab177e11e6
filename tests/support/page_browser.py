"""The web page in a headless Chromium, before a stand-in for the server."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import playwright.sync_api as playwright
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, expect

from .page_stand_in import StandIn

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_MS = 30_000  # of a busy machine


@contextmanager
def running_stand_in() -> Iterator[StandIn]:
    """Run a stand-in for the server within this context."""
    stand_in = StandIn()
    config = uvicorn.Config(
        stand_in, port=0, lifespan="off", log_level="critical", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the stand-in server did not start"
        thread.join(0.01)
    stand_in.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    yield stand_in
    server.should_exit = True
    thread.join()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium within this context."""
    args = ["--no-sandbox", "--autoplay-policy=no-user-gesture-required"]
    args += ["--host-resolver-rules=MAP *.example 127.0.0.1"]  # hosts of foreign pages
    args += ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=args)
        yield browser
        browser.close()


@contextmanager
def new_context(browser: Browser) -> Iterator[BrowserContext]:
    """Yield a context of the browser that shares no storage with others."""
    expect.set_options(timeout=PATIENCE_MS)
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@contextmanager
def opened_page(server: StandIn, context: BrowserContext) -> Iterator[Page]:
    """Open the page; at the end check that the console has no error and no other host was asked."""
    page = context.new_page()
    wrong: list[str] = []
    hosts: set[str] = set()
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto(server.url)
    yield page
    # Chromium writes refused and broken requests to the console, which is no fault of the page.
    ours = [text for text in wrong if not text.startswith("Failed to load resource")]
    assert ours == []
    assert hosts - {""} <= {urlsplit(server.url).netloc}  # a blob has no host


def speak(page: Page, text: str = "Hello there.") -> None:
    """Fill in a text, and press the button that speaks it."""
    page.get_by_label("Text to speak").fill(text)
    page.get_by_role("button", name="Speak").click()


def wait_for(page: Page, state: str) -> None:
    """Wait until the player is in a state."""
    expect(page.locator("#stage")).to_have_attribute("data-state", state)


def figure(page: Page, name: str) -> float:
    """Return a figure of the page: received, underruns, position or clock."""
    return float(page.locator("#stage").get_attribute(f"data-{name}") or "nan")
