"""Times on a command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.cli.when import UNITS, parse_when
from lumia.errors import WhenError

NOW = datetime.fromisoformat("2026-11-22T10:30:00+01:00").timestamp()


@pytest.fixture(autouse=True)
def zone() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    "text, iso",
    [
        ("now", "2026-11-22T10:30:00+01:00"),
        ("2h", "2026-11-22T08:30:00+01:00"),
        ("30m", "2026-11-22T10:00:00+01:00"),
        ("90s", "2026-11-22T10:28:30+01:00"),
        ("1.5h", "2026-11-22T09:00:00+01:00"),
        ("1d12h", "2026-11-20T22:30:00+01:00"),
        ("1w", "2026-11-15T10:30:00+01:00"),
        ("2H  ago", "2026-11-22T08:30:00+01:00"),
        ("today", "2026-11-22T00:00:00+01:00"),
        ("Yesterday", "2026-11-21T00:00:00+01:00"),
        ("yesterday 14:00", "2026-11-21T14:00:00+01:00"),
        ("9:05", "2026-11-22T09:05:00+01:00"),
        ("14:30:10", "2026-11-22T14:30:10+01:00"),
        ("2026-11-20", "2026-11-20T00:00:00+01:00"),
        ("2026-11-20 07:00", "2026-11-20T07:00:00+01:00"),
        ("2026-07-20T07:00", "2026-07-20T07:00:00+02:00"),
        ("2026-11-20T07:00Z", "2026-11-20T07:00:00+00:00"),
        ("2026-11-20T07:00:00.5-05:00", "2026-11-20T07:00:00.5-05:00"),
        ("@1700000000.25", "2023-11-14T22:13:20.25+00:00"),
    ],
)
def test_a_time_is_read_as_people_write_it(text: str, iso: str) -> None:
    assert parse_when(text, NOW) == pytest.approx(datetime.fromisoformat(iso).timestamp())


def test_a_day_before_the_clocks_change_begins_at_its_own_midnight() -> None:
    monday = datetime.fromisoformat("2026-10-26T12:00:00+01:00").timestamp()
    assert parse_when("yesterday", monday) == datetime.fromisoformat("2026-10-25T00:00:00+02:00").timestamp()


NONSENSE = ["", " ", "soon", "2", "2x", "h", "-2h", "25:00", "yesterday noon", "2026-13-01", "99999w", "@-1", "9" * 400]


@pytest.mark.parametrize("text", NONSENSE)
def test_what_is_no_time_is_refused_with_the_ways_to_write_one(text: str) -> None:
    with pytest.raises(WhenError, match="yesterday 14:00"):
        parse_when(text, NOW)


@given(st.integers(0, 10**6), st.sampled_from(sorted(UNITS)))
def test_a_duration_counts_back_from_now(number: int, unit: str) -> None:
    back = number * UNITS[unit]
    if back <= NOW:
        assert parse_when(f"{number}{unit}", NOW) == NOW - back


@given(st.text(max_size=30))
def test_any_text_gives_a_time_or_a_clear_error(text: str) -> None:
    try:
        found = parse_when(text, NOW)
    except WhenError:
        return
    assert found >= 0
