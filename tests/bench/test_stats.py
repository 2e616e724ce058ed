"""Median, spread and percentiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats import Spread, percentile

FLOATS = st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=50)


def test_the_spread_is_the_median_between_the_lowest_and_the_highest_round() -> None:
    assert Spread.of([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, (3.0, 1.0, 2.0))


def test_nearest_rank_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, p) for p in (0, 1, 50, 99, 99.5, 100)] == [1, 1, 50, 99, 100, 100]


@given(FLOATS, st.floats(0, 100))
def test_at_least_the_asked_share_does_not_exceed_a_percentile(values: list[float], percent: float) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-6


@pytest.mark.parametrize("call", [lambda: Spread.of([]), lambda: percentile([], 50)])
def test_nothing_measured_has_no_figure(call: object) -> None:
    with pytest.raises(ValueError, match="at least one"):
        call()  # type: ignore[operator]
