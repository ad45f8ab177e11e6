"""Make the sound and the pictures of the documents again, with the bundled voice.

    python -m tests.make_pictures      (or: make pictures)

The picture of the page needs Chromium, and a font with Chinese characters. Listen to the sound and
look at the pictures before you commit them.
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, expect

from ChatTTS.cli import main as chattts

from .support.page_browser import chromium, wait_for
from .support.places import ROOT
from .support.serving_tools import running_server

DOCS = ROOT / "docs"
SEED = 1
VOICE = "edith"  # not the usual one, so that a choice is seen
# In pixels of the page, which the picture has 1.2 times as many of.
WIDTH, HEIGHT, SCALE = 1280, 853, 1.2
MOMENT = 3.3  # seconds of speech that are over in the picture


def sentence() -> str:
    """Return what ``make demo`` says."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^SENTENCE := (.*)$", makefile, re.MULTILINE)
    assert found is not None
    return found[1]


def make_demo() -> None:
    """Write ``demo.mp3``, and the picture of the same speech."""
    sound, picture = str(DOCS / "demo.mp3"), str(DOCS / "demo.png")
    arguments = ["--model", "bundled", "--seed", str(SEED), "-o", sound, "--plot", picture]
    if chattts(["say", sentence(), *arguments]):
        raise SystemExit("the demo was not spoken")
    _make_small(DOCS / "demo.png")


def make_page() -> None:
    """Write ``page.png``: the page of the server while it speaks."""
    text = sentence().replace(". ", ". [uv_break] ")
    with running_server() as server, chromium() as browser:
        context = browser.new_context(
            viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE
        )
        page = context.new_page()
        page.goto(server.url)
        page.get_by_label("Text to speak").fill(text)
        page.get_by_role("radio", name=VOICE).check(force=True)
        page.get_by_role("button", name="Speak").click()
        wait_for(page, "playing")
        _wait_until(page, MOMENT)
        page.evaluate("window.scrollTo(0, 0)")
        page.screenshot(path=DOCS / "page.png")
        context.close()
    _make_small(DOCS / "page.png")


def _make_small(picture: Path) -> None:
    """Give a picture a palette, which takes a third of the bytes."""
    with Image.open(picture) as image:
        image.convert("RGB").quantize(256).save(picture, optimize=True)


def _wait_until(page: Page, seconds: float) -> None:
    stage = page.locator("#stage")
    while float(stage.get_attribute("data-position") or 0) < seconds:
        expect(stage).not_to_have_attribute("data-state", "ended")
        page.wait_for_timeout(20)


def main() -> None:
    make_demo()
    make_page()


if __name__ == "__main__":
    main()
