"""The words of the speech on the page: the one that sounds, clicks on them, and subtitles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from ...support.page_browser import new_context, opened_page, speak, wait_for
from ...support.page_stand_in import StandIn, tone

pytestmark = pytest.mark.slow  # a browser costs a second of a core for each

SECONDS = 80
TEXT = "😀 Early <b>or</b> late, we go."
SENTENCES = ["😀 One. [laugh] ", "Dos we go."]
WORDS = ["Early", "<b>or</b>", "late", "we", "go"]  # 20 s each, but for the last two
CUES = [
    {"start": 0.0, "end": 59.9996, "lines": ["😀 Early", "<b>or</b> late,"]},
    {"start": 3661.25, "end": 3663.0, "lines": ["Q & A"]},
]
SRT = """1
00:00:00,000 --> 00:01:00,000
😀 Early
<b>or</b> late,

2
01:01:01,250 --> 01:01:03,000
Q & A
"""
VTT = """WEBVTT

00:00:00.000 --> 00:01:00.000
😀 Early
&lt;b&gt;or&lt;/b&gt; late,

01:01:01.250 --> 01:01:03.000
Q &amp; A
"""


def timed_words() -> list[dict[str, Any]]:
    times = [0, 20, 40, 60, 60, SECONDS]  # "we" was left out
    found = []
    for word, (start, end) in zip(WORDS, pairwise(times), strict=True):
        place = TEXT.index(word)
        places = {"start_character": place, "end_character": place + len(word)}
        found.append({"word": word, "start": start, "end": end, **places, "confidence": 0.9})
    return found


@pytest.fixture
def server(running: StandIn) -> StandIn:
    running.reset()
    running.sound = tone(SECONDS)
    running.status["word_times"] = True
    running.words, running.cues = timed_words(), CUES
    return running


@pytest.fixture
def page(server: StandIn, browser: Browser) -> Iterator[Page]:
    with new_context(browser) as context, opened_page(server, context) as page:
        expect(page.locator("#queue-text")).to_have_text("Ready")
        yield page


def position(page: Page) -> float:
    return float(page.locator("#stage").get_attribute("data-position") or "nan")


def test_words_are_marked_while_they_sound_and_play_when_clicked(
    server: StandIn, page: Page
) -> None:
    transcript, marked = page.locator("#transcript"), page.locator(".word.now")
    expect(transcript).to_be_hidden()
    speak(page, TEXT)
    wait_for(page, "playing")
    assert server.spoken[0]["timestamp_granularities"] == ["word"]
    expect(marked).to_have_text("Early")
    expect(page.locator(".word")).to_have_text(WORDS)
    expect(transcript).to_have_text(TEXT)
    page.get_by_text("late", exact=True).click()
    expect(marked).to_have_text("late")
    wait_for(page, "playing")
    assert 40 <= position(page) < 50
    page.get_by_role("button", name="Pause", exact=True).click()
    wait_for(page, "paused")
    page.locator(".word", has_text="or").first.click()
    wait_for(page, "playing")  # unlike a click on the waveform
    expect(marked).to_have_text("<b>or</b>")
    assert 20 <= position(page) < 30
    page.get_by_text("we", exact=True).click()  # it has no sound of its own
    expect(marked).to_have_text("go")
    page.get_by_role("slider", name="Position").press("End")
    wait_for(page, "ended")
    expect(marked).to_have_count(0)
    page.get_by_text("Early", exact=True).click()
    expect(marked).to_have_text("Early")


def test_the_sentence_is_marked_too(server: StandIn, page: Page) -> None:
    text = "".join(SENTENCES).strip()
    places = [text.index(word) for word in ("One", "Dos")]
    # The second word sounds after a pause, which still belongs to the first sentence.
    server.words = [
        {
            "word": "",
            "start": start,
            "end": start + 10,
            "start_character": at,
            "end_character": at + 3,
        }
        for start, at in zip((0, 40), places, strict=True)
    ]
    speak(page, text)
    read, wave = page.locator(".sentence.read"), page.get_by_role("slider", name="Position")
    expect(read).to_have_text("😀 One. laughter")
    expect(page.locator(".word")).to_have_count(2)
    page.get_by_role("button", name="Pause", exact=True).click()
    wait_for(page, "paused")
    box = wave.bounding_box()
    assert box
    for share, word, sentence in ((0.4, 0, "😀 One. laughter"), (0.55, 1, "Dos we go.")):
        wave.click(position={"x": share * box["width"], "y": 9})
        expect(page.locator(".word.now")).to_have_count(word)
        expect(read).to_have_text(sentence)
    wave.press("End")
    page.keyboard.press("Space")
    wait_for(page, "ended")
    expect(read).to_have_count(0)


def fault(kind: str, text: str) -> dict[str, Any]:
    place = TEXT.index(text) if text else len(TEXT)
    places = {"start_character": place, "end_character": place + len(text)}
    return {"kind": kind, "text": text, "words": 1, "start": 60.0, "end": 60.0, **places}


def test_words_with_faults_are_marked_and_named(server: StandIn, page: Page) -> None:
    told = page.locator("#faults")
    server.faults = [fault("skipped", "we"), fault("repeated", "<b>or</b>"), fault("tail", "")]
    speak(page, TEXT)
    expect(page.locator(".word.faulty")).to_have_text(["<b>or</b>", "we"])
    expect(told).to_have_text(
        "“we” may be missing; “<b>or</b>” may be said twice; "
        "more sound follows the last word. Speak it again: it comes out differently."
    )
    assert server.spoken[0]["guard"] == "report"
    server.faults = [fault("skipped", "we")] * 9
    speak(page, TEXT)
    expect(told).to_contain_text("; and 4 more. Speak")
    server.faults = []
    speak(page, "Hello there.")
    expect(page.locator(".entry")).to_have_count(3)
    expect(told).to_be_hidden()
    page.locator(".entry").last.get_by_role("button", name="Play").click()  # kept with the sound
    expect(told).to_be_visible()
    expect(page.locator(".word.faulty")).to_have_count(2)


def test_what_was_left_out_is_named(server: StandIn, page: Page) -> None:
    told = page.locator("#faults")
    server.left_out = ["你", "<b>…"]
    speak(page, TEXT)
    expect(told).to_have_text("Left out, since this voice cannot speak it: 你, <b>….")
    server.faults = [fault("skipped", "we")]
    server.left_out = list("абвгде")
    speak(page, TEXT)
    expect(told).to_have_text(
        "Left out, since this voice cannot speak it: а, б, в, г, д, and 1 more. "
        "“we” may be missing. Speak it again: it comes out differently."
    )


def test_a_pause_marks_nothing(server: StandIn, page: Page) -> None:
    server.words = [server.words[0] | {"start": 30.0}]
    speak(page, TEXT)
    wait_for(page, "playing")
    expect(page.locator(".word")).to_have_text(["Early"])
    expect(page.locator(".word.now")).to_have_count(0)
    expect(page.locator("#transcript")).to_have_text(TEXT)


@pytest.mark.parametrize(("kind", "content"), [("srt", SRT), ("vtt", VTT)], ids=["srt", "vtt"])
def test_subtitles_are_downloaded(server: StandIn, page: Page, kind: str, content: str) -> None:
    button = page.get_by_role("button", name=kind)
    expect(button).to_be_hidden()
    speak(page, TEXT)
    with page.expect_download() as download:
        button.click()
    assert download.value.suggested_filename == f"chattts-anna-1234.{kind}"
    assert download.value.path().read_text(encoding="utf-8") == content
    assert len(server.spoken) == 1


def test_words_stay_with_their_speech(server: StandIn, page: Page) -> None:
    speak(page, TEXT)
    expect(page.get_by_role("button", name="srt")).to_be_enabled()  # all of it is there
    server.words, server.cues = [], []
    speak(page, "Hello there.")
    expect(page.locator(".entry")).to_have_count(2)
    expect(page.locator("#transcript")).to_be_hidden()
    expect(page.get_by_role("button", name="wav", exact=True)).to_be_enabled()
    expect(page.get_by_role("button", name="srt")).to_be_disabled()
    page.locator(".entry").last.get_by_role("button", name="Play").click()
    expect(page.locator(".word")).to_have_text(WORDS)
    expect(page.get_by_role("button", name="srt")).to_be_enabled()


def test_a_server_without_words_is_not_asked_for_them(server: StandIn, page: Page) -> None:
    server.status["word_times"] = False
    page.reload()
    expect(page.locator("#queue-text")).to_have_text("Ready")
    speak(page, TEXT)
    expect(page.get_by_role("button", name="wav", exact=True)).to_be_enabled()
    assert not {"timestamp_granularities", "guard"} & server.spoken[0].keys()
    expect(page.locator("#transcript")).to_be_hidden()
    expect(page.get_by_role("button", name="vtt")).to_be_disabled()
