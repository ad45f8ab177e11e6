"""The page with a stand-in for the server: playing, errors, keys, history, layout, contrast."""

from __future__ import annotations

import base64
import json
import re
import shlex
from typing import Any

import numpy as np
import pytest
from fastapi import Request, Response
from playwright.sync_api import BrowserContext, Page, expect

from ...support.page_browser import PATIENCE_MS, figure, speak, wait_for
from ...support.page_stand_in import StandIn, refusal, tone

EVIL = "<img src=x onerror=\"document.title='taken'\">"
pytestmark = pytest.mark.slow  # a browser costs a second of a core for each


def picture(page: Page) -> str:
    drawn: str = page.evaluate("document.getElementById('wave').toDataURL()")
    return drawn


@pytest.mark.parametrize("again", [False, True])
def test_stopping_lets_the_server_go(server: StandIn, page: Page, again: bool) -> None:
    server.answer = server.endless
    speak(page)
    wait_for(page, "playing")
    if again:  # the newest request replaces the one before
        server.answer = server.speak
        speak(page)
    else:
        page.get_by_role("button", name="Stop", exact=True).click()
    assert server.left.wait(PATIENCE_MS / 1000)
    wait_for(page, "ended")
    if again:
        assert figure(page, "received") == len(server.sound) / 2
        expect(page.locator(".entry")).to_have_count(2)
        return
    expect(page.get_by_role("button", name="Stop", exact=True)).to_be_disabled()
    expect(page.locator(".entry")).to_have_count(1)  # what was heard is kept
    expect(page.locator("#notice")).to_be_hidden()


@pytest.mark.parametrize("has_worklet", [True, False])
def test_a_dry_player_waits_and_goes_on(server: StandIn, page: Page, has_worklet: bool) -> None:
    if not has_worklet:  # as on a page without https
        page.evaluate("delete BaseAudioContext.prototype.audioWorklet")
    server.answer = server.halting
    speak(page)
    expect(page.locator("#stage")).to_have_attribute("data-underruns", "1")
    wait_for(page, "waiting")
    server.go_on.set()
    wait_for(page, "ended")
    assert figure(page, "underruns") == 1
    expect(page.locator("#underruns")).to_have_text("1")
    assert figure(page, "position") == pytest.approx(0.5, abs=1e-3)


def test_the_audio_thread_gets_every_sample_once(server: StandIn, page: Page) -> None:
    heard = page.evaluate(
        """async ([samples, sizes]) => {
            const { WorkletRun } = await import("/static/runs.js");
            for (let pause = 30, dry = 0; ; pause *= 2) { // until all messages come in time
                const context = new OfflineAudioContext(1, 24000, 24000);
                await context.audioWorklet.addModule("/static/worklet.js");
                const note = ({ underruns }) => { dry = underruns; };
                const run = new WorkletRun(context, context.destination, 0, note);
                for (let at = 0, i = 0; at < samples.length; at += sizes[i++ % sizes.length])
                    run.feed(new Float32Array(samples.slice(at, at + sizes[i % sizes.length])));
                run.finish();
                context.suspend(0).then(() => setTimeout(() => context.resume(), pause));
                const heard = await context.startRendering();
                await new Promise((done) => setTimeout(done, pause)); // for the last report
                if (!dry || pause > 5000) return [...heard.getChannelData(0)];
            }
        }""",
        [list(range(1, 3001)), [7, 128, 900, 1]],
    )
    expected, played = np.arange(1, 3001), np.array(heard)
    begin = int(np.flatnonzero(played)[0]) - 1  # the first samples are faded in from 0
    assert np.array_equal(played[begin + 128 : begin + 3000], expected[128:])
    assert not played[begin + 3000 :].any()
    assert (np.diff(played[begin : begin + 128]) > 0).all()  # faded in


def test_seeking_and_pausing(server: StandIn, page: Page) -> None:
    server.sound = tone(70)
    speak(page)
    wait_for(page, "playing")
    page.get_by_role("button", name="Pause", exact=True).click()
    wait_for(page, "paused")
    expect(page.get_by_role("button", name="wav", exact=True)).to_be_enabled()  # all of it is there
    wave = page.get_by_role("slider", name="Position")
    expect(wave).to_have_attribute("aria-valuemax", "70")
    box = wave.bounding_box()
    assert box
    wave.click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    halfway = re.compile(r"^3[45]\.")
    expect(page.locator("#stage")).to_have_attribute("data-position", halfway)
    wait_for(page, "paused")
    wave.press("ArrowRight")
    expect(wave).to_have_attribute("aria-valuetext", re.compile("^3[56] of 70 seconds$"))
    wave.press("Home")
    expect(wave).to_have_attribute("aria-valuenow", "0")
    wave.press("End")
    wave.press(" ")
    wait_for(page, "ended")
    page.get_by_role("button", name="Play", exact=True).click()
    wait_for(page, "playing")
    page.keyboard.press("Escape")
    wait_for(page, "ended")


def test_a_busy_server_says_when(server: StandIn, page: Page) -> None:
    async def busy(body: dict[str, Any], request: Request) -> Response:
        return refusal(429, f"Too many {EVIL}", "rate_limit_exceeded", retry_after="1")

    server.answer = busy
    speak(page)
    alert = page.get_by_role("alert").first
    expect(alert).to_contain_text("Many of your requests are still waiting.")
    expect(alert).to_contain_text("It should be your turn in 1 s.")
    expect(page.locator("#stage")).to_be_hidden()  # no request is pending
    page.get_by_text("What the server said").click()
    expect(page.locator("#notice-said")).to_have_text(f"Too many {EVIL}")
    server.answer = server.speak
    page.get_by_role("button", name="Try again", exact=True).click()  # once it is enabled
    wait_for(page, "ended")
    expect(page.locator("#notice")).to_be_hidden()
    assert len(server.spoken) == 2
    assert page.title() == "ChatTTS"


def test_a_key_is_asked_for(server: StandIn, page: Page) -> None:
    server.key = "secret"
    page.reload()
    dialog, key = page.get_by_role("dialog", name="This server needs a key"), page.locator("#key")
    expect(key).to_be_focused()
    page.get_by_role("button", name="Not now").click()
    expect(page.locator(".voice:visible")).to_have_count(0)
    page.get_by_role("button", name="Enter the key").click()
    key.fill("wrong")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("doesn't know this key")
    key.fill("secret")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.locator("#queue-text")).to_have_text("Ready")
    expect(page.get_by_role("radio", name="Anna")).to_be_checked()
    speak(page)
    wait_for(page, "ended")
    page.get_by_text("For developers").click()
    expect(page.locator("#curl")).to_contain_text("Bearer $CHATTTS_API_KEY")
    expect(page.locator("#curl")).not_to_contain_text("secret")
    page.reload()
    expect(page.get_by_role("radio", name="Anna")).to_be_checked()


def test_a_broken_connection_is_told(server: StandIn, page: Page) -> None:
    server.answer = server.breaking
    speak(page)
    wait_for(page, "playing")
    server.go_on.set()
    expect(page.get_by_role("alert").first).to_contain_text("The connection broke")
    expect(page.get_by_role("button", name="Try again")).to_be_enabled()
    expect(page.locator(".entry")).to_have_count(1)


def test_history(server: StandIn, page: Page) -> None:
    speak(page, EVIL)
    wait_for(page, "ended")
    entry = page.locator(".entry")
    expect(entry.locator(".entry-text")).to_have_text(EVIL)
    expect(entry.locator(".entry-meta")).to_have_text("\u2068Anna\u2069 · 0:00.5")
    entry.get_by_role("button", name="Play").click()
    wait_for(page, "ended")
    assert len(server.spoken) == 1  # from memory

    page.reload()
    page.get_by_label("Text to speak").fill("")
    entry.get_by_role("button", name="Play").click()
    wait_for(page, "ended")
    assert server.spoken[1] == {**server.spoken[0], "seed": 1234}  # spoken again
    expect(entry).to_have_count(1)
    entry.get_by_role("button", name="Put the text").click()
    expect(page.get_by_label("Text to speak")).to_have_value(EVIL)
    expect(page.locator("#seed")).to_have_value("1234")
    with page.expect_download() as download:
        entry.get_by_role("button", name="Download").click()
    mark = base64.b64decode(server.status["wav_mark"])
    assert download.value.path().read_bytes()[44:] == server.sound + mark
    entry.get_by_role("button", name="Delete").click()
    expect(entry).to_have_count(0)
    assert json.loads(page.evaluate("sessionStorage.getItem('chattts.history')")) == []
    assert page.title() == "ChatTTS"


def test_examples_are_in_languages_that_a_voice_speaks(server: StandIn, page: Page) -> None:
    example = page.get_by_role("button", name="中文")
    expect(example).to_be_visible()  # the language of no voice is known
    server.voices = [{"id": "anna", "name": "Anna", "language": "en"}]
    page.reload()
    expect(example).to_be_hidden()
    expect(page.get_by_role("button", name="Greeting")).to_be_visible()


def test_the_queue_is_polled_while_the_page_is_visible(
    server: StandIn, context: BrowserContext
) -> None:
    server.status = {"running": 4, "waiting": 3, "limit": 4}
    page = context.new_page()
    page.clock.install()
    page.goto(server.url)
    expect(page.locator("#queue-text")).to_have_text("Busy, 3 waiting")
    server.status = {"running": 0, "waiting": 0, "limit": 4}
    page.clock.run_for(2500)
    expect(page.locator("#queue-text")).to_have_text("Ready")
    look = """hidden => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(look, True)
    asked = server.asked_status
    page.clock.run_for(60_000)
    server.status = {"running": 1, "waiting": 0, "limit": 4}
    page.evaluate(look, False)
    expect(page.locator("#queue-text")).to_have_text("1 speaking")
    assert server.asked_status == asked + 1


def test_nothing_sticks_out(server: StandIn, page: Page) -> None:
    long = {"kind": "speaker", "uploaded": True}
    server.voices = [{"id": name * 90, "name": name * 90, **long} for name in "wv"]
    page.reload()
    page.locator("label[for=mix]").click()
    speak(page, "x" * 300 + " [laugh]" * 9)
    wait_for(page, "ended")
    page.evaluate("document.getElementById('notice').hidden = false")
    for summary in ("More", "For developers"):
        page.get_by_text(summary, exact=True).click()
    for opener in ("", "#voice-add", "#key"):
        if opener == "#voice-add":
            page.locator(opener).click()
        elif opener:
            page.locator("#voice-cancel").click()
            page.evaluate("document.getElementById('key-dialog').showModal()")
        for width in (320, 390, 820):
            page.set_viewport_size({"width": width, "height": 700})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_speak_stays_in_reach(page: Page) -> None:
    button = page.get_by_role("button", name="Speak", exact=True)
    page.get_by_label("Text to speak").fill("So we go on. " * 400)
    for width, height in ((320, 568), (390, 844), (1280, 480)):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        expect(button).to_be_in_viewport(ratio=1)
        if width < 640:  # wherever a phone is scrolled to
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            expect(button).to_be_in_viewport(ratio=1)
            last, above = page.locator("#history-empty").bounding_box(), button.bounding_box()
            assert last is not None
            assert above is not None
            assert last["y"] + last["height"] < above["y"]


def test_the_limit_is_told_before_it_is_met(server: StandIn, page: Page) -> None:
    server.status["max_characters"] = 20
    page.reload()
    count, text = page.locator("#count"), page.get_by_label("Text to speak")
    expect(count).to_have_text("0 of 20 characters")
    text.fill("  nineteen 😀 letters ")  # an emoji is one, and spaces around do not count
    expect(count).to_have_text("18 of 20 characters")
    expect(count).to_have_attribute("data-state", "fine")
    text.fill("nineteen 😀 letters.")
    expect(count).to_have_attribute("data-state", "near")
    text.fill("  nineteen 😀 letters and [laugh]")
    expect(count).to_have_text("10 characters too many")
    expect(page.locator(".tinge.over")).to_have_text("d [laugh]".rjust(10, "n"))
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.get_by_role("alert").first).to_contain_text("Shorten it by 10 characters")
    assert server.spoken == []


def test_tags_have_human_names(server: StandIn, page: Page) -> None:
    text = "Well [laugh] so [pause:1.5s] we [speed_5] go [llbreak] on [foo] [speed_12]"
    names = ["laughter", "silence, 1.5 s", "pace 5 of 9", "longer pause", "[foo]", "[speed_12]"]
    speak(page, text)
    wait_for(page, "ended")
    expect(page.locator(".entry .tag-chip")).to_have_text(names)
    expect(page.locator(".entry .tag-chip.unknown")).to_have_text(names[4:])
    expect(page.locator("#legend li")).to_have_count(6)
    expect(page.locator("#legend li").last).to_contain_text("is left out")
    expect(page.locator("#shade .tinge")).to_have_count(6)
    assert server.spoken[0]["input"] == text


def test_the_command_gives_the_same_speech(server: StandIn, page: Page) -> None:
    speak(page, 'It\'s $HOME; `ls` \\ "quoted".')
    wait_for(page, "ended")
    page.get_by_text("For developers").click()
    words = shlex.split(page.locator("#curl").inner_text().replace("\\\n", ""))
    assert words[:2] == ["curl", f"{server.url}v1/audio/speech"]
    sent = json.loads(words[words.index("-d") + 1])
    assert (sent["input"], sent["seed"]) == (server.spoken[0]["input"], 1234)


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``, as WCAG 2 defines it."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def test_contrast(page: Page) -> None:
    pairs = [
        *[(ink, ground, 4.5) for ink in ("ink", "soft") for ground in ("page", "card", "control")],
        *[("ink", "danger-tint", 4.5), ("danger", "card", 4.5), ("accent-strong", "tint", 4.5)],
        *[("on-accent", "accent", 4.5), ("on-danger", "danger", 4.5), ("edge", "card", 3)],
        *[("accent", "card", 3), ("focus", "page", 3), ("focus", "card", 3)],
        *[("wave-heard", "card", 3), ("danger", "danger-tint", 4.5), ("ink", "tint", 4.5)],
        *[("soft", "tint", 4.5), ("soft", "danger-tint", 4.5)],
    ]
    style = "n => getComputedStyle(document.documentElement).getPropertyValue('--' + n).trim()"
    pages = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        pages.add(page.evaluate(style, "page"))
        for front, ground, least in pairs:
            dark, light = sorted(luminance(page.evaluate(style, n)) for n in (front, ground))
            assert (light + 0.05) / (dark + 0.05) >= least, (scheme, front, ground)
    assert len(pages) == 2


def test_everything_has_a_name(page: Page) -> None:
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, textarea, canvas, dialog")]
            .filter((e) => !e.textContent.trim() && !e.ariaLabel && !(e.labels && e.labels.length))
            .filter((e) => !e.getAttribute("aria-labelledby"))
            .map((e) => e.outerHTML)"""
    )
    assert nameless == []


def test_speech_that_was_cut_is_told(server: StandIn, page: Page) -> None:
    server.finish_reason = "length"
    speak(page)
    expect(page.get_by_role("alert").first).to_contain_text("was cut off")
    page.get_by_role("button", name="Try again").click()  # with another seed
    expect(page.locator(".entry")).to_have_count(2)
