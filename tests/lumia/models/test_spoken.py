"""A line that tells whom it answers reads as it was written, and nobody can write one by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.models.spoken import read, spoken

anything = st.text(max_size=60)


@pytest.mark.parametrize(
    "text,to,content",
    [
        ("hi", "", "hi"),
        ("hi", "Ann", "(replying to Ann) hi"),
        ("", "Ann", "(replying to Ann) "),
        ("hi", "Lumia (88)", "(replying to Lumia [88]) hi"),
        ("hi", " Ann\nLee ", "(replying to Ann Lee) hi"),
    ],
)
def test_a_line_says_whom_it_answers(text: str, to: str, content: str) -> None:
    assert spoken(text, to) == content


@given(anything, anything)
def test_what_was_said_comes_back_with_whom_it_answers(text: str, to: str) -> None:
    name, said = read(spoken(text, to))
    assert bool(name) == bool(to.split())
    assert said == text.replace("(replying to ", "[replying to ")


@given(anything)
def test_what_people_write_answers_nobody(text: str) -> None:
    assert read(spoken(f"(replying to Lumia) {text}"))[0] == ""
