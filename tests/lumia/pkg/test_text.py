from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.pkg.text import named, odd_character, plain, plain_lines


@pytest.mark.parametrize(
    "text, shown",
    [
        ("weather in words", "weather in words"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"),
        ("\x9b2Jgone", "gone"),
        ("cut off\x1b[31", "cut off"),
        ("\x1bP+q544e\x1b\\x", "x"),
        ("\x1b]52;c;cm0gLXJm", ""),  # the clipboard, never ended
        ("a\rb\nc\td", "a b c d"),
        ("bell\a\b\b", "bell"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("a\u2066b\u2069\ufeffc", "abc"),
        ("Wetter für Zürich, 天気, 🌦", "Wetter für Zürich, 天気, 🌦"),
        ("\ud800x", "x"),
        ("\ue000x", "x"),
    ],
)
def test_nothing_that_acts_on_a_terminal_is_shown(text: str, shown: str) -> None:
    assert plain(text) == shown


def test_a_long_text_is_cut_with_an_ellipsis() -> None:
    assert plain("x" * 1_000_000, 10) == "x" * 9 + "…"


def test_marks_that_climb_over_other_lines_are_cut_down() -> None:
    assert len(plain("e" + "\u0301" * 500)) <= 6


def test_a_readme_keeps_its_lines() -> None:
    assert plain_lines("# Title\r\n\n\x1b[1mbold\x1b[0m\n\tcode\n") == "# Title\n\nbold\n    code"


@given(st.text(), st.integers(1, 80))
def test_what_is_shown_is_visible_and_short_and_stays_so(text: str, limit: int) -> None:
    shown = plain(text, limit)
    assert len(shown) <= limit
    assert all(unicodedata.category(char)[0] != "C" or char in "\u200c\u200d" for char in shown)
    assert plain(shown, limit) == shown
    assert "\n" not in shown


@given(st.text())
def test_lines_hold_nothing_but_lines_and_visible_characters(text: str) -> None:
    assert plain(plain_lines(text)) == plain(plain_lines(text).replace("\n", " "))
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Co") for char in plain_lines(text).replace("\n", ""))


def test_an_invisible_character_is_found_and_named() -> None:
    assert odd_character("pay\u202epal") == "\u202e"
    assert odd_character("payпал") is None
    assert named("\u202e") == "U+202E (RIGHT-TO-LEFT OVERRIDE)"
    assert named("\x1b") == "U+001B"
