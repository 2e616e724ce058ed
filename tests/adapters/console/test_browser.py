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
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

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
