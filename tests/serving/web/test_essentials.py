"""What the page is for, in a headless Chromium: these tests are quick, the others are slow."""

from __future__ import annotations

import io
import re
import wave

import pytest
from playwright.sync_api import Page, expect

from ChatTTS.audio import find_mark

from ...support.page_browser import figure, speak, wait_for
from ...support.page_stand_in import RATE, StandIn


def tallest_bar(page: Page) -> float:
    """Return the height of the tallest painted column, as a share of the canvas."""
    share: float = page.evaluate(
        """() => {
            const canvas = document.getElementById("wave");
            const { width, height } = canvas;
            const copy = new OffscreenCanvas(width, height).getContext("2d");
            copy.drawImage(canvas, 0, 0);
            const { data } = copy.getImageData(0, 0, width, height);
            let most = 0;
            for (let x = 0; x < width; x++) {
                let painted = 0;
                for (let y = 0; y < height; y++) painted += data[4 * (y * width + x) + 3] > 128;
                if (painted < height) most = Math.max(most, painted); // not the playhead
            }
            return most / height;
        }"""
    )
    return share


@pytest.mark.slow
def test_speech_is_played_drawn_and_kept_as_it_came(server: StandIn, page: Page) -> None:
    expect(page.locator("#stage")).to_be_hidden()
    page.locator("#more summary").click()
    page.get_by_role("textbox", name="Seed").fill("77")
    page.get_by_label("Start sooner").check()
    speak(page)
    wait_for(page, "playing")
    earlier = figure(page, "clock")
    wait_for(page, "ended")
    assert figure(page, "clock") > earlier
    assert figure(page, "received") == len(server.sound) / 2
    assert figure(page, "position") == pytest.approx(0.5, abs=1e-3)
    assert figure(page, "underruns") == 0
    expect(page.locator("#seed-used")).to_have_text("77")
    expect(page.locator("#first-sound")).to_have_text(re.compile(r"^\d+(\.\d+)? m?s$"))
    expect(page.locator("#factor")).to_have_text(re.compile(r"^\d+\.\d\d×$"))
    page.wait_for_timeout(300)  # the bars grow smoothly
    assert tallest_bar(page) > 0.5
    assert server.spoken == [
        {
            "model": "chattts",
            "input": "Hello there.",
            "voice": "anna",
            "response_format": "pcm",
            "stream_format": "sse",
            "speed": 1,
            "seed": 77,
            "refine": False,
            "low_latency": True,
        }
    ]

    with page.expect_download() as download:
        page.get_by_role("button", name="wav", exact=True).click()
    assert download.value.suggested_filename == "chattts-anna-77.wav"
    assert find_mark(download.value.path()).is_synthetic
    with wave.open(io.BytesIO(download.value.path().read_bytes())) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (RATE, 1, 2)
        assert file.readframes(file.getnframes()) == server.sound
    assert len(server.spoken) == 1

    with page.expect_download() as download:
        page.get_by_role("button", name="mp3").click()
    assert download.value.suggested_filename == "chattts-anna-77.mp3"
    assert download.value.path().read_bytes() == b"bytes of mp3"
    del server.spoken[0]["stream_format"]
    assert server.spoken[1] == {**server.spoken[0], "response_format": "mp3", "stream": False}


@pytest.mark.slow
def test_text_tags_and_settings(server: StandIn, page: Page) -> None:
    page.get_by_role("button", name="Speak").click()
    expect(page.get_by_role("alert").first).to_contain_text("Write a text first")
    text = page.get_by_label("Text to speak")
    text.fill("Well")
    inserts = page.get_by_role("group", name="Insert into the text").get_by_role("button")
    expect(inserts).to_have_text(["Short pause", "Longer pause", "Silence", "Laughter"])
    page.get_by_role("button", name="Insert laughter").click()
    expect(text).to_have_value("Well [laugh] ")
    expect(text).to_be_focused()
    expect(page.locator("#count")).to_have_text("12 characters")
    expect(page.locator("#legend")).to_have_text("[laugh] laughter")
    for name, value in (("Speed", "2"), ("Liveliness", "0.7")):
        page.get_by_role("slider", name=name).fill(value)
    page.locator("#more summary").click()
    page.get_by_label("Add pauses").check()
    page.get_by_role("button", name="Draw a seed").click()
    text.press("Control+Enter")
    wait_for(page, "ended")
    sent = server.spoken[0]
    assert (sent["speed"], sent["temperature"], sent["refine"]) == (4, 0.7, True)
    assert 0 <= sent["seed"] < 2**31
    page.get_by_role("button", name="Reset").click()
    text.press("Control+Enter")
    wait_for(page, "ended")
    assert server.spoken[1]["speed"] == 1
    assert not server.spoken[1].keys() & {"temperature", "seed"}


@pytest.mark.slow
def test_voices_are_heard_and_words_are_marked(server: StandIn, page: Page) -> None:
    server.status["word_times"] = True
    places = {"start_character": 0, "end_character": 5}
    server.words = [{"word": "Hello", "start": 0.0, "end": 0.5, "confidence": 0.9, **places}]
    page.reload()
    expect(page.locator("#queue-text")).to_have_text("Ready")
    hear = page.get_by_role("button", name="Hear \u2068Anna")
    hear.click()
    expect(page.locator(".voice-hear")).to_have_attribute("data-state", "playing")
    expect(hear).to_be_visible()  # again, at its end
    speak(page)
    expect(page.locator(".word.now")).to_have_text("Hello")
    assert [body["voice"] for body in server.spoken] == ["anna", "anna"]
