"""Options of lanes, rates, and what the in-memory transport makes of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lumia
from lumia.errors import FlowError, LaneError, PayloadError
from lumia.lanes import LaneOptions, Rate, gcra, limit, options, stale_by
from lumia.testing import Bot, ManualClock

RATES = st.builds(Rate, st.integers(1, 50), per=st.sampled_from([0.5, 1, 7, 60, 3600]), burst=st.integers(1, 10))
PAUSES = st.lists(st.floats(0, 30), max_size=60)


class PlainGcra:
    """The virtual scheduling algorithm of ITU-T I.371, in exact numbers."""

    def __init__(self, rate: Rate) -> None:
        self.interval = Fraction(rate.per) / rate.count
        self.limit = self.interval * (rate.burst - 1)
        self.expected = Fraction(0)

    def conforms(self, now: Fraction, margin: Fraction) -> bool | None:
        """Count one more if it conforms; None when that hangs on less than `margin`."""
        early = self.expected - self.limit - now
        if abs(early) <= margin:
            return None
        if early > 0:
            return False
        self.expected = max(self.expected, now) + self.interval
        return True


@given(RATES, PAUSES)
def test_a_rate_lets_through_what_the_plain_algorithm_does(rate: Rate, pauses: list[float]) -> None:
    model, tat, now = PlainGcra(rate), 0.0, 1.7e9
    for pause in pauses:
        now += pause
        wanted = model.conforms(Fraction(now), Fraction(1, 100_000))
        if wanted is None:
            return
        wait, after = gcra(tat, now, rate)
        assert (wait == 0) == wanted
        assert wanted or gcra(tat, now + wait, rate)[0] == pytest.approx(0, abs=1e-5)
        tat = after


@given(RATES, st.integers(1, 100))
def test_reserved_places_are_spaced_evenly_after_the_burst(rate: Rate, count: int) -> None:
    tat, places = 0.0, []
    for _ in range(count):
        wait, tat = gcra(tat, 0.0, rate, reserve=True)
        places.append(wait)
    assert places == pytest.approx([max(0, n + 1 - rate.burst) * rate.interval for n in range(count)], abs=1e-5)


@given(RATES, PAUSES)
def test_no_window_sees_more_than_the_rate_and_its_burst(rate: Rate, pauses: list[float]) -> None:
    tat, now, passed = 0.0, 0.0, []
    for pause in pauses:
        now += pause
        wait, tat = gcra(tat, now, rate)
        if not wait:
            passed.append(now)
    for first in passed:
        assert sum(first <= at < first + rate.per for at in passed) <= rate.count + rate.burst


@pytest.mark.parametrize(
    "wrong, why",
    [
        ({"cap": -1}, "cap is the number"), ({"cap": True}, "cap is the number"),
        ({"max_age": -1}, "max_age is seconds"),
        ({"overflow": "drop"}, "overflow is one of"), ({"stale": "keep"}, "stale is one of"),
        ({"collect": 2.0, "max_wait": 1.0}, "shorter than collect"),
        ({"collect": float("inf")}, "collect is seconds"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_named(wrong: dict[str, object], why: str) -> None:
    with pytest.raises(PayloadError, match=why):
        LaneOptions(**wrong)  # type: ignore[arg-type]


def test_a_start_without_options_carries_none() -> None:
    assert options(cap=None, overflow="reject", max_age=0.0, stale="drop", collect=0.0, max_wait=0.0) is None


@pytest.mark.parametrize(
    "wrong", [{"count": 0}, {"count": 1, "per": 0}, {"count": 1, "burst": 0}, {"count": 1, "over": "x"}]
)
def test_rates_that_make_no_sense_are_named(wrong: dict[str, object]) -> None:
    with pytest.raises(PayloadError, match=r"lumia\.Rate"):
        Rate(**wrong)  # type: ignore[arg-type]


def test_a_limit_needs_a_name_and_a_rate() -> None:
    with Bot(_quiet):
        with pytest.raises(PayloadError, match="a name is"):
            limit("", Rate(1))
        with pytest.raises(PayloadError, match=r"a lumia\.Rate"):
            limit("x", 3)  # type: ignore[arg-type]
        with pytest.raises(FlowError, match="stale_by"):
            stale_by()


@lumia.pipe.on("quiet")
def _quiet(content: lumia.Box[object]) -> None:
    pass


@lumia.pipe.on("part of a tree")
def _starts_a_part(content: lumia.Box[object]) -> None:
    lumia.pipe.start("quiet", content, rate=Rate(1))


def test_a_part_of_a_tree_waits_for_no_rate_and_no_burst() -> None:
    with Bot(_quiet, _starts_a_part) as bot:
        result = bot.start("part of a tree", 1, key="lane")
        assert result.outcome == "failed" and LaneError.__name__ in result.reason and "detach=True" in result.reason


def test_a_rate_works_on_a_clock_that_is_moved() -> None:
    with Bot(_quiet, clock=ManualClock()) as bot:
        runs = [lumia.pipe.start("quiet", lumia.Box.any(n), rate=Rate(1, per=60)) for n in range(3)]
        bot.settle()
        assert [lumia.runs.result(run).outcome for run in runs] == ["done", None, None]  # type: ignore[union-attr]
        bot.settle(60)
        assert [lumia.runs.result(run).outcome for run in runs] == ["done", "done", None]  # type: ignore[union-attr]
        bot.settle(60)
        assert lumia.runs.result(runs[2]).outcome == "done"  # type: ignore[union-attr]
