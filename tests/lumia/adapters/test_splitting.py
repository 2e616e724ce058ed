"""Long texts: cut where a reader would, never within what is seen as one character, fences closed and reopened."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumia.adapters import parts, utf16

TEXTS = st.text(alphabet=st.sampled_from("ab .,!\n`~e\u0301👍🏽👩‍👩‍👧🇩🇪中。漢\u200d"), max_size=400)


@pytest.mark.parametrize("text", ["", "  \n\n "])
def test_a_blank_text_has_no_parts(text: str) -> None:
    assert parts(text, 100) == []


def test_a_short_text_stays_as_it_is() -> None:
    assert parts("Hello there.\n\nBye.", 100) == ["Hello there.\n\nBye."]


def test_paragraphs_go_first_then_sentences_then_words() -> None:
    assert parts("one two three.\n\nfour five six.", 20) == ["one two three.", "four five six."]
    assert parts("One two three. Four five six.", 20) == ["One two three.", "Four five six."]
    assert parts("alpha beta gamma delta epsilon", 20) == ["alpha beta gamma", "delta epsilon"]
    assert parts("今天天气很好。我们去公园玩吧。你觉得怎么样？", 16) == [
        "今天天气很好。我们去公园玩吧。",
        "你觉得怎么样？",
    ]


def test_a_word_longer_than_the_limit_is_cut() -> None:
    assert parts("x" * 40, 16) == ["x" * 16, "x" * 16, "x" * 8]


def test_a_fence_is_closed_and_opened_again() -> None:
    code = "\n".join(f"line {number}" for number in range(8))
    found = parts(f"See:\n```python\n{code}\n```\nDone.", 50)
    assert all(len(part) <= 50 for part in found)
    assert found[0].endswith("\n```") and found[1].startswith("```python\n")
    assert all(part.count("```") in (0, 2) for part in found)
    inside = "\n".join(line for part in found for line in part.splitlines() if line.startswith("line"))
    assert inside == code


def test_indentation_of_code_survives_a_cut() -> None:
    found = parts("```\n" + "\n".join("    indented" for _ in range(6)) + "\n```", 40)
    assert [line for part in found for line in part.splitlines() if "ind" in line] == ["    indented"] * 6


def test_a_limit_in_utf16_units_holds() -> None:
    found = parts("👍" * 30, 16, utf16)
    assert [utf16(part) for part in found] == [16, 16, 16, 12]


@pytest.mark.parametrize("whole", ["👩‍👩‍👧", "🇩🇪", "👍🏽", "e\u0301"])
def test_what_is_seen_as_one_character_is_never_cut(whole: str) -> None:
    for part in parts(whole * 40, 17):
        assert part == whole * (len(part) // len(whole))


@given(TEXTS, st.integers(16, 60), st.sampled_from([len, utf16]))
@settings(max_examples=300, deadline=None)
def test_no_part_is_too_long_and_no_word_is_lost(text: str, limit: int, measure: object) -> None:
    assert callable(measure)
    found = parts(text, limit, measure)
    assert all(part.strip() and measure(part) <= limit for part in found)
    kept = "".join("".join(found).split()).replace("`", "").replace("~", "")
    wanted = "".join(text.split()).replace("`", "").replace("~", "")
    if "```" not in text and "~~~" not in text:
        assert kept == wanted


def test_a_limit_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="16 or more"):
        parts("hello", 3)


def test_marks_without_end_are_cut_in_no_time() -> None:
    found = parts("e" + "\u0301" * 20_000, 100)
    assert len(found) == 201 and all(len(part) <= 100 for part in found)


@given(st.lists(st.sampled_from(["```\n", "```py\n", "~~~\n", "  x = 1\n", "some text. ", "\n"]), max_size=60))
@settings(max_examples=200, deadline=None)
def test_whatever_fences_there_are_nothing_that_was_said_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = parts(text, 40)
    assert all(len(part) <= 40 for part in found)

    def said(whole: str) -> str:
        return "".join(char for char in whole if char in "x=1some.")

    assert "".join(map(said, found)) == said(text)
