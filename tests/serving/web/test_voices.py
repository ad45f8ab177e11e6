"""The voices of the page: cards, previews, mixes, recordings, and names that are hostile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import Request, Response
from playwright.sync_api import Browser, Locator, Page, expect

from ...support.page_browser import new_context, opened_page, speak, wait_for
from ...support.page_stand_in import StandIn, refusal

EVIL = "<img src=x onerror=\"document.title='taken'\">"
TURNED = "\u202eevil"  # would turn the words around it
pytestmark = pytest.mark.slow  # a browser costs a second of a core for each


def voice(name: str, kind: str = "speaker", **more: Any) -> dict[str, Any]:
    usual = {"uploaded": False, "language": "en", "stands_for": None}
    return {"id": name, "name": name, "kind": kind, **usual, **more}


@pytest.fixture
def server(running: StandIn) -> StandIn:
    running.reset()
    running.voices = [
        *[voice("me", "sample", uploaded=True), voice("anna"), voice("bert")],
        *[voice("alloy", "alias", stands_for="anna"), voice("echo", "alias", stands_for="bert")],
        *[voice("nova", "alias", stands_for="anna"), voice("lost", "alias")],
    ]
    running.default = "nova"
    return running


@pytest.fixture
def page(server: StandIn, browser: Browser) -> Iterator[Page]:
    with new_context(browser) as context:
        context.grant_permissions(["microphone"])
        with opened_page(server, context) as page:
            expect(page.locator(".voice.chosen")).to_have_count(1)
            yield page


def card(page: Page, name: str) -> Locator:
    return page.locator("#voice-list .voice").filter(
        has=page.locator(".voice-name").get_by_text(name, exact=True)
    )


def radio(page: Page, name: str) -> Locator:
    return card(page, name).get_by_role("radio")


def test_names_are_folded_under_the_voice_that_they_mean(server: StandIn, page: Page) -> None:
    names = page.locator("#voice-list .voice-name")
    expect(names).to_have_text(["me", "anna", "bert", "lost"])
    expect(page.locator(".voice-count:visible")).to_have_text(["2 other names", "1 other name"])
    others = card(page, "anna").locator(".voice-others")
    expect(others).to_be_hidden()
    card(page, "anna").locator(".voice-count").click()
    expect(others).to_have_text("\u2068alloy\u2069, \u2068nova\u2069")
    # The server's default is one of these names.
    expect(radio(page, "anna")).to_be_checked()
    radio(page, "anna").press("ArrowDown")
    expect(radio(page, "bert")).to_be_checked()
    speak(page)
    wait_for(page, "ended")
    assert server.spoken[0]["voice"] == "bert"
    page.reload()
    expect(radio(page, "bert")).to_be_checked()


def test_the_language_of_the_text_chooses_until_the_user_does(server: StandIn, page: Page) -> None:
    server.language_defaults = {"zh": "bert"}
    page.evaluate("sessionStorage.clear()")
    page.reload()
    note = card(page, "bert").locator(".voice-note")
    expect(note).to_have_text("Built in · usual voice for Chinese")
    speak(page)
    wait_for(page, "ended")
    card(page, "anna").locator("label").click()  # that was marked already
    speak(page)
    wait_for(page, "ended")
    assert [body.get("voice") for body in server.spoken] == [None, "anna"]
    expect(page.locator(".entry-meta").last).to_contain_text("anna")
    page.reload()
    speak(page)
    wait_for(page, "ended")
    assert server.spoken[2]["voice"] == "anna"


def test_a_preview_is_spoken_once(server: StandIn, page: Page) -> None:
    hear = card(page, "bert").locator(".voice-hear")
    expect(hear).to_have_attribute("aria-label", "Hear \u2068bert\u2069")
    for _ in range(2):
        hear.click()
        expect(hear).to_have_attribute("data-state", "playing")
        expect(hear).to_have_attribute("data-state", "idle")
    assert [body["voice"] for body in server.spoken] == ["bert"]
    expect(radio(page, "anna")).to_be_checked()  # hearing is not choosing

    server.answer = server.endless
    other = card(page, "anna").locator(".voice-hear")
    other.click()
    expect(other).to_have_attribute("aria-label", "Stop \u2068anna\u2069")
    hear.click()  # one at a time
    expect(other).to_have_attribute("data-state", "idle")
    assert server.left.wait(30)
    server.answer = server.speak
    speak(page)
    expect(hear).to_have_attribute("data-state", "idle")
    wait_for(page, "ended")


def test_a_preview_that_fails_is_told(server: StandIn, page: Page) -> None:
    async def broken(body: dict[str, Any], request: Request) -> Response:
        return refusal(500, "it broke", "engine_failed")

    server.answer = broken
    hear = card(page, "bert").locator(".voice-hear")
    hear.click()
    expect(page.get_by_role("alert").first).to_contain_text("That didn't work out.")
    expect(hear).to_have_attribute("data-state", "idle")
    server.answer = server.speak
    page.get_by_role("button", name="Try again").click()
    expect(hear).to_have_attribute("data-state", "playing")


def test_voices_are_mixed_by_sliders(server: StandIn, page: Page) -> None:
    server.voices.append(voice("a:b, c"))  # its name has the signs of a mix
    page.reload()
    panel = page.locator("#mix-panel")
    expect(panel).to_be_hidden()
    page.locator("label[for=mix]").click()
    expect(page.locator("#mix-parts button")).to_have_text(["anna", "bert"])
    expect(panel).to_contain_text("recordings cannot be mixed")
    page.get_by_role("slider", name="Share of \u2068anna").fill("75")
    page.get_by_role("slider", name="Share of \u2068bert").fill("25")
    expect(page.locator("#mix-note")).to_have_text("75 % \u2068anna\u2069, 25 % \u2068bert\u2069")
    page.get_by_role("button", name="Hear \u2068your own mix").click()
    expect(page.locator("#mix-hear")).to_have_attribute("data-state", "playing")
    speak(page)
    wait_for(page, "ended")
    assert [body["voice"] for body in server.spoken] == ["anna:75,bert:25"] * 2
    expect(page.locator(".entry-meta")).to_contain_text("75 %")

    card(page, "me").locator("label").click()
    expect(panel).to_be_hidden()
    page.locator(".entry").get_by_role("button", name="Put the text").click()
    expect(page.get_by_role("slider", name="Share of \u2068bert")).to_have_value("25")
    page.get_by_role("button", name="anna", exact=True).click()
    expect(page.locator("#mix-error")).to_have_text("A mix has at least two voices.")

    expect(page.locator("#mix-save")).to_be_disabled()
    page.get_by_label("Save it as").fill("anna")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#mix-error")).to_contain_text("Choose another name")
    page.get_by_label("Save it as").fill("us")
    page.get_by_label("Save it as").press("Enter")
    expect(radio(page, "us")).to_be_checked()
    saved = server.uploads[-1]
    assert (saved["name"], saved["speaker"]) == ("us", "anna:75,bert:25")
    assert saved["consent"]


def test_the_microphone_gives_a_voice(server: StandIn, page: Page) -> None:
    page.get_by_role("button", name="Add a voice").click()
    dialog = page.get_by_role("dialog", name="Add a voice")
    read = dialog.get_by_label("Read this aloud")
    assert len(read.input_value()) > 50
    dialog.get_by_label("Name of the voice").fill("Zoë")
    dialog.get_by_role("button", name="Add voice").click()
    assert server.uploads == []  # without consent
    dialog.get_by_label("The speaker agreed").check()
    dialog.get_by_role("button", name="Add voice").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Record something first")
    dialog.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator("#record-level")).to_be_visible()
    whole = re.compile(r"^0:(0[1-9]|[12]\d)\.\d of 0:29\.0$")
    expect(page.locator("#record-time")).to_have_text(whole)
    dialog.get_by_role("button", name="Stop").click()
    expect(page.locator("#record-sound")).to_be_visible()
    expect(page.locator("#record-sound")).to_have_js_property("readyState", 4)  # can be heard
    expect(dialog.get_by_role("button", name="Record again")).to_be_visible()
    heard = re.compile("too loud|is short|sounds good")  # the beeps of the false microphone
    expect(page.locator("#record-advice")).to_have_text(heard)
    dialog.get_by_role("button", name="Add voice").click()
    expect(dialog).to_be_hidden()
    sent = server.uploads[-1]
    assert (sent["file"], sent["name"], sent["ref_text"]) == (
        *("recording.webm", "Zoë"),
        "The old clock in the kitchen runs a little fast. Every morning I open the window, "
        "and the whole street smells of fresh bread.",
    )
    assert sent["audio_sample"][:4] == b"\x1aE\xdf\xa3"  # of Matroska
    assert sent["consent"] == "The speaker agreed to this use of their voice."
    expect(radio(page, "Zoë")).to_be_checked()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("NotAllowedError", "The microphone was not allowed."),
        ("NotFoundError", "There is no microphone."),
        ("NotReadableError", "Another program uses the microphone."),
    ],
)
def test_a_refused_microphone_is_told(page: Page, fault: str, told: str) -> None:
    page.evaluate(
        """name => { navigator.mediaDevices.getUserMedia = async () => {
            throw new DOMException("", name);
        }; }""",
        fault,
    )
    page.get_by_role("button", name="Add a voice").click()
    page.locator("#record").click()
    expect(page.locator("#voice-error")).to_contain_text(told)
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_enabled()


def test_a_page_without_https_offers_files(server: StandIn, page: Page, tmp_path: Path) -> None:
    page.evaluate("Object.defineProperty(window, 'isSecureContext', { value: false })")
    page.get_by_role("button", name="Add a voice").click()
    dialog = page.get_by_role("dialog", name="Add a voice")
    recording = tmp_path / "me.wav"
    recording.write_bytes(b"RIFF and so on")
    dialog.get_by_label("Sound file").set_input_files(recording)
    dialog.get_by_label("What it says").fill("What I say.")
    dialog.locator(".choice").get_by_text("Record").click()
    expect(page.locator("#record-reason")).to_contain_text("only at a secure address")
    expect(page.locator("#record")).to_be_hidden()
    dialog.get_by_text("Choose a file", exact=True).click()
    expect(dialog.get_by_label("What it says")).to_have_value("What I say.")
    dialog.get_by_label("Name of the voice").fill("anna")
    dialog.get_by_label("The speaker agreed").check()
    dialog.get_by_role("button", name="Add voice").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Choose another name")
    dialog.get_by_label("Name of the voice").fill("me_2")
    dialog.get_by_role("button", name="Add voice").click()
    expect(radio(page, "me_2")).to_be_checked()
    assert server.uploads[-1]["audio_sample"] == recording.read_bytes()
    page.get_by_role("button", name="Delete \u2068me_2").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(radio(page, "me_2")).to_have_count(0)
    expect(radio(page, "anna")).to_be_checked()  # the server's default


def test_hostile_names_are_only_shown(server: StandIn, page: Page) -> None:
    names = [EVIL, TURNED, "w" * 200, "😀 مرحبا", "</script>", *[f"more {n}" for n in range(9)]]
    server.voices = [voice(name, uploaded=True) for name in names]
    server.voices.append(voice(EVIL * 2, "alias", stands_for=EVIL))
    server.default = EVIL
    page.reload()
    expect(page.locator("#voice-list .voice-name")).to_have_text(names)
    page.locator("#voice-filter").fill("MORE")
    expect(page.locator("#voice-list .voice:visible")).to_have_count(9)
    page.locator("#voice-filter").fill("no such")
    expect(page.locator("#voice-none")).to_be_visible()
    page.locator("#voice-filter").fill("")
    turned = card(page, TURNED).locator(".voice-name")
    assert turned.evaluate("e => getComputedStyle(e).unicodeBidi") == "isolate"
    page.get_by_role("button", name="Delete").nth(1).click()
    expect(page.locator("#confirm-text")).to_contain_text(f"\u2068{TURNED}\u2069")
    page.get_by_role("button", name="Cancel").click()
    page.locator("label[for=mix]").click()
    speak(page)
    wait_for(page, "ended")
    assert page.locator(".voice img, .voice script, .entry img").count() == 0
    assert page.title() == "ChatTTS"


def test_failed_lists_can_be_loaded_again(server: StandIn, page: Page) -> None:
    route = "**/v1/audio/voices"
    page.route(route, lambda request: request.abort())
    page.reload()
    expect(page.locator("#voices-failed")).to_contain_text("The server can't be reached.")
    page.unroute(route)
    page.locator("#voices-retry").click()
    expect(page.locator("#voice-list .voice")).to_have_count(4)
    expect(page.locator("#voices-failed")).to_be_hidden()
