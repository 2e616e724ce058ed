"""The wire form of journal entries, and text that may stand in a record."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from lumia.journal import KINDS, MAX_REASON, JournalEntry, clean, described

TEXTS = st.text(st.characters(), max_size=20)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
ENTRIES = st.builds(
    JournalEntry, st.sampled_from(KINDS), TEXTS, TEXTS, TEXTS, TEXTS, st.none() | st.integers(0, 99), TEXTS, TEXTS,
    TEXTS, ms=st.floats(0, 1e9), attempt=st.integers(0, 9), worker=TEXTS,
    detail=st.dictionaries(TEXTS, JSON_VALUES, max_size=3),
)  # fmt: skip


@given(ENTRIES, st.floats(0, 1e10))
def test_an_entry_survives_being_written(entry: JournalEntry, time: float) -> None:
    text = entry.dump()
    again = JournalEntry.load(text, cursor="7-0", time=time)
    assert (again.cursor, again.time) == ("7-0", time)
    assert JournalEntry(**{**again.__dict__, "cursor": "", "time": 0.0}) == entry
    assert text.isascii() and "\n" not in text


def test_what_is_empty_takes_no_room() -> None:
    assert json.loads(JournalEntry("start", "run", "run").dump()) == {"n": "start", "r": "run"}
    assert json.loads(JournalEntry("step", "run", "run", step=0).dump()) == {"n": "step", "r": "run", "x": 0}


def test_fields_of_a_newer_version_are_passed_over() -> None:
    assert JournalEntry.load('{"n":"end","r":"run","new":1}', cursor="1", time=2.0) == JournalEntry(
        "end", "run", "run", time=2.0, cursor="1"
    )


@given(st.text(st.characters() | st.sampled_from("\x00\ud800"), max_size=40), st.integers(2, 30), st.booleans())
def test_cleaned_text_can_be_stored_anywhere(text: str, limit: int, end: bool) -> None:
    shown = clean(text, limit, end=end)
    assert len(shown) <= limit
    assert "\x00" not in shown
    shown.encode()
    assert clean(shown, limit, end=end) == shown


def test_long_text_is_cut_where_it_says_least() -> None:
    assert clean("abcdef", 4) == "abc…"
    assert clean("abcdef", 4, end=True) == "…def"
    assert clean("abcd", 4) == clean("abcd", 4, end=True) == "abcd"
    assert len(clean("x" * 10_000)) == MAX_REASON


def test_what_can_not_be_encoded_is_shown_as_something_that_can() -> None:
    assert clean("a\x00b\ud800c") == "a␀b?c"


def test_an_error_that_can_not_be_shown_is_still_named() -> None:
    class Rude(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert described(Rude()) == "Rude: (its message can't be shown)"
