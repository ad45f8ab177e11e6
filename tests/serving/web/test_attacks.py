"""The page in hard places: double clicks, no storage, no scripts, a server that was restarted."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import Request, Response
from playwright.sync_api import Browser, BrowserContext, Page, expect

from ...support.page_browser import opened_page, speak, wait_for
from ...support.page_stand_in import StandIn, refusal

pytestmark = pytest.mark.slow  # a browser costs a second of a core for each
NO_STORAGE = """Object.defineProperty(window, "sessionStorage", {
    get() { throw new DOMException("", "SecurityError"); },
});"""


def test_a_double_click_deletes_one(page: Page) -> None:
    for count in range(2):
        speak(page)
        expect(page.locator(".entry")).to_have_count(count + 1)
    page.locator(".entry-delete").first.dblclick()
    expect(page.locator(".entry")).to_have_count(1)


def test_two_clicks_speak_once(server: StandIn, page: Page) -> None:
    page.get_by_label("Text to speak").fill("Hello there.")
    # In one turn of the page: a short answer may end between two clicks of a mouse.
    page.get_by_role("button", name="Speak").evaluate("it => { it.click(); it.click(); }")
    wait_for(page, "ended")
    expect(page.locator(".entry")).to_have_count(1)
    expect(page.locator("#notice")).to_be_hidden()


def test_a_page_without_storage(server: StandIn, context: BrowserContext) -> None:
    server.key = "secret"
    context.add_init_script(NO_STORAGE)
    with opened_page(server, context) as page:
        page.locator("#key").fill("schlüssel 🔑")  # no header can carry it
        page.keyboard.press("Enter")
        expect(page.locator("#key-error")).to_contain_text("doesn't know this key")
        page.locator("#key").fill("secret")
        page.keyboard.press("Enter")
        expect(page.get_by_role("radio", name="Anna")).to_be_checked()
        speak(page)
        wait_for(page, "ended")


def test_a_server_that_is_back_tells_its_voices(server: StandIn, page: Page) -> None:
    expect(page.locator("#queue-text")).to_have_text("Ready")
    page.clock.install()
    page.reload()
    page.route("**/v1/**", lambda route: route.abort())
    page.clock.run_for(2500)
    expect(page.locator("#queue-text")).to_have_text("Not reachable")
    server.voices = [{"id": "bert", "name": "Bert"}]
    server.default = "bert"
    server.tags = [{"tag": "[cough]", "name": "cough", "kind": "sound"}]
    page.unroute("**/v1/**")
    page.clock.run_for(10_500)
    expect(page.get_by_role("radio", name="Bert")).to_be_checked()
    expect(page.get_by_role("button", name="Insert cough")).to_be_visible()


def test_tags_are_those_of_the_checkpoint(server: StandIn, page: Page) -> None:
    server.tags = [{"tag": "[笑]", "name": "a laugh", "kind": "sound"}]
    page.reload()
    inserts = page.get_by_role("group", name="Insert into the text").get_by_role("button")
    expect(inserts).to_have_text(["Silence", "A laugh"])
    expect(page.get_by_role("button", name="Laughter")).to_be_hidden()  # an example
    text, legend = page.get_by_label("Text to speak"), page.locator("#legend li")
    page.get_by_role("button", name="Story").click()
    expect(text).not_to_have_value(re.compile(r"\["))
    text.fill("[laugh] [笑] [pause:a] [pause:700s] [pause: 1.50s ]")
    no_pause = "is not a pause: write [pause:1.5s] or [pause:300ms]"
    told = ["is left out", "a laugh", *2 * [no_pause], "silence, 1.5 s"]
    expect(legend).to_contain_text(told)
    expect(page.locator("#shade .unknown")).to_have_text(["[laugh]", "[pause:a]", "[pause:700s]"])


def test_the_names_of_many_tags_are_bounded(page: Page) -> None:
    text = " ".join(f"[tag{n}]" for n in range(500)) + f" [{'x' * 4000}] [pause:{'9' * 4000}s]"
    page.get_by_label("Text to speak").fill(text)
    expect(page.locator("#legend li")).to_have_count(12)
    speak(page, text)
    expect(page.locator(".entry .tag-chip")).to_have_count(502)
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_adapters_are_voices(server: StandIn, page: Page) -> None:
    adapter = {"id": "emma", "name": "emma", "kind": "adapter", "uploaded": False}
    speakers = [{"id": name, "name": name, "kind": "speaker"} for name in ("anna", "bert")]
    server.voices = [adapter, *speakers]
    page.reload()
    card = page.locator("#voice-list .voice").first
    expect(card).to_contain_text("Trained voice")
    expect(card.locator(".voice-delete")).to_be_hidden()
    page.get_by_role("button", name="Hear \u2068emma").click()
    expect(card.locator(".voice-hear")).to_have_attribute("data-state", "playing")
    card.locator("label").click()
    speak(page)
    wait_for(page, "ended")
    assert [body["voice"] for body in server.spoken] == ["emma", "emma"]
    page.locator("label[for=mix]").click()
    expect(page.locator("#mix-parts button")).to_have_text(["anna", "bert"])
    expect(page.locator("#mix-panel")).to_contain_text("trained voices cannot be mixed")


def test_a_closed_dialog_sends_nothing_more(server: StandIn, page: Page) -> None:
    page.get_by_role("button", name="Add a voice").click()
    dialog = page.get_by_role("dialog", name="Add a voice")
    dialog.locator(".choice").get_by_text("Choose a file").click()
    file = {"name": "a.wav", "mimeType": "audio/wav", "buffer": b"RIFF"}
    dialog.get_by_label("Sound file").set_input_files(file)
    dialog.get_by_label("What it says").fill("Hello.")
    dialog.get_by_label("Name of the voice").fill("zoe")
    dialog.get_by_label("The speaker agreed").check()
    page.route("**/v1/audio/voices", lambda route: None)  # no answer comes
    with page.expect_request("**/v1/audio/voices"):  # it follows when the file was read
        dialog.get_by_role("button", name="Add voice").click()
    expect(page.locator("#voice-send")).to_be_disabled()
    with page.expect_event("requestfailed") as failed:
        page.keyboard.press("Escape")
    assert failed.value.method == "POST"
    expect(dialog).to_be_hidden()
    expect(page.locator("#voice-send")).to_be_enabled()


def test_a_page_without_scripts_says_so(server: StandIn, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    expect(page.get_by_text("This page needs JavaScript")).to_be_visible()
    expect(page.get_by_role("button")).to_have_count(0)
    context.close()


def test_forced_colours_and_low_windows(page: Page) -> None:
    page.emulate_media(forced_colors="active")
    chosen = page.locator(".voice.chosen")
    assert chosen.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.set_viewport_size({"width": 320, "height": 256})  # 1280 x 1024 at 400 %
    assert page.locator("#transport").evaluate("e => getComputedStyle(e).position") == "static"


def test_a_text_without_words_is_told(server: StandIn, page: Page) -> None:
    async def silence(body: dict[str, Any], request: Request) -> Response:
        answer = server.stream([bytes(9600)], body)
        answer.headers["x-silence"] = "nothing to speak"
        return answer

    server.answer = silence
    speak(page, "!!!")
    expect(page.get_by_role("alert").first).to_contain_text("nothing in this text")
    expect(page.locator("#stage")).to_be_hidden()
    expect(page.locator(".entry")).to_have_count(0)


def test_a_fault_in_a_pause_is_told(server: StandIn, page: Page) -> None:
    async def refuse(body: dict[str, Any], request: Request) -> Response:
        message = "'[pause:x]' is not a pause: write [pause:1.5s] or [pause:300ms], at most 600 s"
        return refusal(400, message, "invalid_request", "input")

    server.answer = refuse
    speak(page, "[pause:x] Hello.")
    expect(page.get_by_role("alert").first).to_contain_text("Write it as [pause:1.5s]")
