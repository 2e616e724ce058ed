"""The console's page in a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Literal

import pytest

from tests.adapters.console import responder
from tests.support.gateway import CONSOLE, Served, served

pytest.importorskip("playwright", reason="needs playwright: pip install -r requirements/dev.txt")
from playwright.sync_api import Browser, FilePayload, Locator, Page, Route, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # Chromium's own sandbox does not work for root, as in most containers; the page is ours.
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield running
        running.close()


@pytest.fixture
def site() -> Iterator[Served]:
    with served(CONSOLE, responder) as running:
        yield running


@pytest.fixture
def page(browser: Browser, site: Served) -> Iterator[Page]:
    """Open the console; whatever the browser complains about fails the test."""
    context = browser.new_context()
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("console", lambda message: complaints.append(message.text) if "Security Policy" in message.text else None)
    foreign: list[str] = []
    tab.on("request", lambda request: None if request.url.startswith(site.url) else foreign.append(request.url))
    tab.goto(f"{site.url}/")
    expect(tab.get_by_role("status").first).to_have_text("connected")
    yield tab
    context.close()
    assert complaints == []
    assert foreign == []


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.keyboard.press("Enter")


def log(page: Page) -> Locator:
    return page.get_by_role("log")


def test_a_typed_message_is_answered_and_its_trace_can_be_opened(page: Page) -> None:
    say(page, "hello there")
    expect(log(page).locator(".bot .bubble")).to_have_text("you said: hello there")
    summary = log(page).locator(".user summary")
    expect(summary).to_contain_text("answered in")
    summary.click()
    expect(log(page).locator(".stages .handler")).to_have_text(["test.listen", "test.answer", "console.deliver"])
    expect(log(page).locator(".stages .foot")).to_contain_text("run ")


def test_an_empty_chat_offers_a_beginning(page: Page) -> None:
    expect(page.get_by_role("heading", name="Say hello to Lumia")).to_be_visible()
    page.get_by_role("button", name="Hello!").click()
    expect(log(page).locator(".bot .bubble")).to_have_text("you said: Hello!")
    expect(page.locator("#welcome")).to_be_hidden()


def test_a_silence_shows_its_stage_and_reason(page: Page) -> None:
    say(page, "be quiet")
    expect(log(page).locator(".user summary")).to_have_text("no answer: stopped at test.listen (asked to be quiet)")


def test_while_it_works_the_stage_is_shown(page: Page) -> None:
    responder.hold.clear()
    try:
        say(page, "slowly")
        expect(page.locator("#typing")).to_contain_text("test.listen")
    finally:
        responder.hold.set()
    expect(page.locator("#typing")).to_be_hidden()


def test_nothing_anybody_types_becomes_part_of_the_page(page: Page) -> None:
    attack = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    page.get_by_label("You speak as").fill("<b>Eve</b>")
    page.keyboard.press("Enter")
    say(page, attack)
    expect(log(page).locator(".bot .bubble")).to_have_text(f"you said: {attack}")
    assert log(page).locator("img[src=x], script, b").count() == 0
    assert page.title() == "Lumia console"


def test_groups_are_made_named_and_kept(page: Page, site: Served) -> None:
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name", exact=True).fill("Tea & <Talk>-1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Tea & <Talk>-1", exact=True)).to_be_visible()
    say(page, "first")
    expect(log(page).locator(".bot .bubble")).to_have_text("you said: first")
    page.reload()
    expect(page.get_by_role("heading", name="Tea & <Talk>-1", exact=True)).to_be_visible()
    expect(log(page).locator(".bubble")).to_have_text(["first", "you said: first"])
    expect(log(page).locator(".user summary")).to_contain_text("answered in")


def test_a_message_typed_while_the_gateway_is_away_is_sent_when_it_is_back(page: Page, site: Served) -> None:
    say(page, "before")
    expect(log(page).locator(".bot .bubble")).to_have_text(["you said: before"])
    site.stop()
    expect(page.get_by_role("status").first).to_contain_text("reconnecting")
    say(page, "meanwhile")
    expect(log(page).locator(".user summary").last).to_contain_text("waiting for the connection")
    site.start()
    expect(log(page).locator(".bubble")).to_have_text(
        ["before", "you said: before", "meanwhile", "you said: meanwhile"], timeout=20000
    )
    expect(log(page).locator(".user summary").last).to_contain_text("answered in")


def test_a_long_message_is_folded_and_line_breaks_stay(page: Page) -> None:
    page.get_by_label("Message", exact=True).fill("line one\nline two\n" + "x" * 5000)
    page.get_by_role("button", name="Send").click()
    expect(log(page).locator(".user .bubble")).to_contain_text("line one\nline two")
    log(page).get_by_role("button", name="Show all").first.click()
    expect(log(page).locator(".user .bubble")).to_have_text("line one\nline two\n" + "x" * 5000, use_inner_text=True)


def test_it_can_be_used_with_the_keyboard_alone(page: Page) -> None:
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    expect(log(page).locator(".user .bubble")).to_have_text("one\ntwo", use_inner_text=True)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(log(page).locator(".user details")).to_have_attribute("open", "")


def test_on_a_phone_the_chats_slide_in(browser: Browser, site: Served) -> None:
    context = browser.new_context(viewport={"width": 360, "height": 640}, has_touch=True)
    phone = context.new_page()
    phone.goto(f"{site.url}/console")
    expect(phone.get_by_text("connected", exact=True)).to_be_visible()
    expect(phone.get_by_role("button", name="New group")).to_be_hidden()
    phone.get_by_role("button", name="Open the chat list").click()
    expect(phone.get_by_role("button", name="New group")).to_be_in_viewport()
    phone.keyboard.press("Escape")
    expect(phone.get_by_role("button", name="New group")).to_be_hidden()
    wide = phone.evaluate("() => document.documentElement.scrollWidth > window.innerWidth")
    assert not wide
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_follows_the_system_between_light_and_dark(
    browser: Browser, site: Served, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(color_scheme=scheme)
    tab = context.new_page()
    tab.goto(f"{site.url}/console")
    ground = tab.evaluate("() => getComputedStyle(document.body).backgroundColor")
    red = int(ground.removeprefix("rgb(").split(",")[0])
    assert (red > 127) is (scheme == "light")
    context.close()


def chosen(page: Page, *files: FilePayload) -> None:
    with page.expect_file_chooser() as asked:
        page.get_by_role("button", name="Add a file").click()
    asked.value.set_files(list(files))


DOT: FilePayload = {"name": "dot.gif", "mimeType": "image/gif", "buffer": responder.GIF}
DROPPED = """([selector, kind, name, type, bytes]) => {
  const data = new DataTransfer();
  data.items.add(new File([new Uint8Array(bytes)], name, { type }));
  const options = { bubbles: true, cancelable: true };
  const event = kind === "paste" ? new ClipboardEvent(kind, { ...options, clipboardData: data }) : new DragEvent(kind, { ...options, dataTransfer: data });
  document.querySelector(selector).dispatchEvent(event);
}"""  # noqa: E501 (one call of the browser)


def is_drawn(picture: Locator) -> None:
    expect(picture).to_be_visible()
    picture.scroll_into_view_if_needed()
    expect(picture).to_have_js_property("complete", True)
    assert picture.evaluate("picture => picture.naturalWidth") > 0


def test_a_chosen_picture_is_sent_with_its_message_and_stays_in_the_chat(page: Page) -> None:
    chosen(page, DOT)
    expect(page.get_by_role("list", name="Files to be sent").get_by_role("listitem")).to_have_text(["dot.gif\u00d7"])
    say(page, "look")
    expect(log(page).locator(".bot .bubble")).to_have_text("you said: look [image dot.gif, 35 bytes]")
    expect(page.get_by_role("list", name="Files to be sent")).to_be_hidden()
    is_drawn(log(page).locator(".user .bubble img"))
    page.reload()
    is_drawn(log(page).locator(".user .bubble img"))


@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_a_picture_is_pasted_or_dropped_and_needs_no_words(page: Page, kind: str) -> None:
    page.evaluate(DROPPED, ["#text", kind, "cat.gif", "image/gif", list(responder.GIF)])
    send = page.get_by_role("button", name="Send")
    expect(send).to_be_enabled()
    send.click()
    expect(log(page).locator(".bot .bubble")).to_have_text(f"you said:  [image cat.gif, {len(responder.GIF)} bytes]")


def test_enter_waits_for_files_that_are_on_their_way_and_keeps_the_words_if_one_fails(page: Page) -> None:
    held: list[Route] = []
    page.route("**/console/media?*", lambda route: held.append(route))

    def on_its_way() -> Route:
        while not held:
            page.wait_for_timeout(10)
        return held.pop()

    chosen(page, DOT)
    say(page, "look")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_have_value("look")
    on_its_way().continue_()
    expect(log(page).locator(".bot .bubble")).to_have_text("you said: look [image dot.gif, 35 bytes]")
    chosen(page, DOT)
    say(page, "again")
    on_its_way().fulfill(status=503, json={"error": "the disk is full"})
    expect(page.get_by_role("alert")).to_have_text("dot.gif was not added: the disk is full")
    expect(page.get_by_label("Message", exact=True)).to_have_value("again")
    expect(log(page).locator(".user")).to_have_count(1)


def test_a_file_can_be_taken_off_again(page: Page) -> None:
    chosen(page, DOT)
    page.get_by_role("button", name="Remove dot.gif").click()
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    say(page, "nothing")
    expect(log(page).locator(".bot .bubble")).to_have_text("you said: nothing")


def test_a_picture_that_is_too_large_is_drawn_smaller_and_a_file_is_refused(page: Page) -> None:
    chosen(page, {"name": "huge.zip", "mimeType": "application/zip", "buffer": b"PK\x03\x04" + b"x" * 1_100_000})
    expect(page.get_by_role("alert")).to_have_text("huge.zip was not added: it has 1.1 MB, up to 1.0 MB are taken")
    noise = """async () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 900, height: 900 }), context = canvas.getContext("2d");
      const image = context.createImageData(900, 900);
      for (let at = 0; at < image.data.length; at += 65536) crypto.getRandomValues(image.data.subarray(at, at + 65536));
      for (let at = 3; at < image.data.length; at += 4) image.data[at] = 255;
      context.putImageData(image, 0, 0);
      const data = new DataTransfer();
      data.items.add(new File([await new Promise((done) => canvas.toBlob(done, "image/png"))], "noise.png", { type: "image/png" }));
      document.querySelector("#text").dispatchEvent(new ClipboardEvent("paste", { bubbles: true, cancelable: true, clipboardData: data }));
      return data.files[0].size;
    }"""  # noqa: E501 (one call of the browser)
    assert page.evaluate(noise) > 1_500_000
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    say(page, "noise")
    is_drawn(log(page).locator(".user .bubble img"))


def test_what_says_it_is_a_picture_and_is_a_page_is_only_saved(page: Page, site: Served) -> None:
    attack = b"<html><script>document.title='owned'</script>"
    chosen(page, {"name": "cat.png", "mimeType": "image/png", "buffer": attack})
    say(page, "look")
    link = log(page).locator(".user a.file")
    expect(link).to_contain_text("cat.png")
    answer = page.request.get(f"{site.url}{link.get_attribute('href')}")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_pictures_of_the_bot_are_shown_and_what_it_can_t_have_is_told(page: Page) -> None:
    say(page, "a picture, please")
    bubble = log(page).locator(".bot .bubble")
    expect(bubble).to_contain_text("you said: a picture, please")
    expect(bubble).to_contain_text("[image: a file to be sent can't be had: refused")
    is_drawn(bubble.locator("img"))
    expect(bubble.locator("a.file")).to_have_text("menu.pdf \u00b7 1 kB")
