"""Make the sound and the pictures of the documents again, with the bundled voice.

    python -m tests.make_pictures      (or: make pictures)

The picture of the page needs Chromium, and a font with Chinese characters. Listen to the sound and
look at the pictures before you commit them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Page, expect

from ChatTTS.audio.plot import (
    COLOUR_A,
    COLOUR_B,
    FAINT,
    INK,
    new_figure,
    plain_axes,
    write_figure,
)
from ChatTTS.cli import main as chattts
from ChatTTS.core import Chat
from recipes.voice.styles import CAST, speaker_place

from .support.page_browser import chromium, wait_for
from .support.places import ROOT
from .support.serving_tools import running_server

DOCS = ROOT / "docs"
SEED = 1
VOICE = "edith"  # not the usual one, so that a choice is seen
# In pixels of the page, which the picture has 1.2 times as many of.
WIDTH, HEIGHT, SCALE = 1280, 853, 1.2
MOMENT = 3.3  # seconds of speech that are over in the picture
RANDOM = 50  # speakers beside those with names


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
    with running_server(brief=False) as server, chromium() as browser:
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


def make_speakers() -> None:
    """Write ``speakers.png``: speakers in the plane in which those with names differ most."""
    chat = Chat()
    chat.load_or_raise("bundled", device="cpu")
    named = chat.config.defaults.speakers
    torch.manual_seed(SEED)
    drawn = [chat.sample_random_speaker() for _ in range(RANDOM)]
    places = _places(chat, named.values())
    middle = places.mean(0)
    _, _, axes = np.linalg.svd(places - middle)
    plane = axes[:2].T
    figure, target = new_figure(DOCS / "speakers.png", 6.5, 4.6)
    axis = figure.subplots()
    axis.scatter(*((_places(chat, drawn) - middle) @ plane).T, s=16, color=FAINT, linewidths=0)
    for name, place in zip(named, (places - middle) @ plane, strict=True):
        is_english = CAST[name].language == "en"
        axis.scatter(*place, s=48, color=COLOUR_A if is_english else COLOUR_B)
        axis.annotate(
            name,
            place,
            (7 if is_english else -7, 0),
            textcoords="offset points",
            horizontalalignment="left" if is_english else "right",
            verticalalignment="center",
            fontsize=10,
            color=INK,
        )
    axis.set(xlabel="first principal axis", ylabel="second principal axis", aspect="equal")
    plain_axes(axis)
    write_figure(figure, target)
    _make_small(target)


def _places(chat: Chat, speakers: Iterable[str]) -> NDArray[np.float64]:
    """Return the coordinates of speakers, [speakers, coordinates]."""
    return np.stack([speaker_place(chat._loaded.speaker.vector(each)) for each in speakers])


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
    make_speakers()
    make_page()


if __name__ == "__main__":
    main()
