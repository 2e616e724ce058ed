"""The lab's page: nothing is loaded, nothing anybody said becomes part of it, and its buttons filter."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handlers.heartflow.lab_bars import Bar, chart
from handlers.heartflow.lab_page import diff_page, page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ATTACK = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


def decision(number: int, **fields: Any) -> dict[str, Any]:
    steps = [
        {"layer": "L1", "handler": "heartflow.perceive", "outcome": "next", "reason": "", "notes": {"score": 0.91}}
    ]
    base = {
        "message_id": f"m{number}", "decision": "silent", "layer": "L1", "reason": "score 0.20 under 0.65: small talk",
        "wrong": False, "file": "log", "group_id": "g", "time": 1700000000.0 + number, "sender_id": "7",
        "sender_name": "Ann", "text": "well", "calls": 1, "tokens_in": 40, "tokens_out": 2, "steps": steps,
    }  # fmt: skip
    return {**base, **fields}


@pytest.fixture
def report() -> str:
    decisions = [
        decision(1),
        decision(2, decision="engage", reason="score 0.91 over 0.65", replies=["seven"], text="3 + 4?"),
        decision(3, wrong=True, label="engage", text=ATTACK, sender_name=ATTACK, reply_to="bot:m2"),
    ]
    layer = {"layer": "L1", "engaged": 1, "silent": 2, "tokens_in": 120, "tokens_out": 6}
    figures = {
        "precision": 1.0,
        "recall": 0.5,
        "f1": 0.667,
        "main_call_ratio": 0.333,
        "token_ratio": None,
        "plain_token_ratio": 0.4,
    }
    return page(
        {
            "version": "1", "messages": 3, **figures, "answered": 1, "wrong": 1, "labelled": 3, "cost": 0.0,
            "unpriced_calls": 0, "tokens": {"in": 120, "out": 6}, "layers": [layer], "decisions": decisions,
            "variant": {"settings": {"heartflow.trigger_threshold": 0.5}},
        },
        title=f"log {ATTACK}",
    )  # fmt: skip


def test_the_page_loads_nothing_and_says_so_to_the_browser(report: str) -> None:
    assert "default-src 'none'" in report
    assert re.findall(r"(?:src|href)\s*=|url\(|@import|https?://", report.replace("src=x", "")) == []


def test_what_people_said_is_text(report: str) -> None:
    assert "<img" not in report
    assert report.count("<script>") == 1
    assert "&lt;img src=x" in report


def test_a_chart_draws_its_parts_to_scale() -> None:
    drawn = chart("Tokens", [Bar("L1", (("in", 30), ("out", 10))), Bar("L3", (("in", 80), ("out", 0)))])
    widths = {
        kind: float(width) for kind, width in re.findall(r'class="(\w+)" x="[\d.]+" y="33" width="([\d.]+)"', drawn)
    }
    assert widths["in"] == pytest.approx(3 * widths["out"], rel=0.01)
    assert 'y="59" width="224.0"' in drawn
    assert chart("Nothing", []) == ""


def test_the_page_of_a_difference_names_both_reasons() -> None:
    side = {"decision": "silent", "layer": "L1", "reason": f"score 0.2 {ATTACK}"}
    other = {"decision": "engage", "layer": "L1", "reason": "score 0.7 over 0.65"}
    changed = {"message_id": "m1", "sender_name": "Ann", "text": "well?", "label": "engage", "a": side, "b": other}
    figures = [{"name": "recall", "a": 0.5, "b": 1.0, "change": 0.5}]
    drawn = diff_page({"names": ["A", "B"], "figures": figures, "changed": [changed], "same": 2}, title="two")
    assert "decisions that changed: 1; that did not: 2" in drawn
    assert "score 0.7 over 0.65" in drawn
    assert "<img" not in drawn


@pytest.fixture
def shown(report: str, tmp_path: Path) -> Iterator[Any]:
    """The page in a browser, as wide as a phone; whatever it complains about or asks for fails the test."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install -r requirements/dev.txt"
    )
    file = tmp_path / "report.html"
    file.write_text(report, "utf-8")
    with sync_api.sync_playwright() as driver:
        # Chromium's own sandbox does not work for root, as in most containers; the page is ours.
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        tab = browser.new_page(viewport={"width": 360, "height": 800})
        complaints: list[str] = []
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("request", lambda request: None if request.url == file.as_uri() else complaints.append(request.url))
        tab.goto(file.as_uri())
        yield tab
        browser.close()
    assert complaints == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH: apt-get install chromium")
def test_the_buttons_filter_and_the_page_fits_a_phone(shown: Any) -> None:
    def visible() -> int:
        return int(shown.evaluate("[...document.querySelectorAll('article')].filter(one => one.offsetParent).length"))

    assert shown.evaluate("document.documentElement.scrollWidth") == 360
    assert shown.title() == f"log {ATTACK}"
    assert visible() == 3
    counts = {}
    for name in ("Wrong", "Answered", "Silent", "All"):
        shown.get_by_role("button", name=name).click()
        counts[name] = visible()
    assert counts == {"Wrong": 1, "Answered": 1, "Silent": 2, "All": 3}
    assert shown.get_by_role("button", name="All").get_attribute("aria-pressed") == "true"
