"""Sums are found in a sentence and worked out exactly."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.models import sums


@pytest.mark.parametrize(
    "text,result",
    [
        ("what is 12*(3+4)?", "84"),
        ("2 + 2", "4"),
        ("0.1+0.2", "0.3"),
        ("10 / 4 - 1", "1.5"),
        ("-3 * -2", "6"),
        ("1,000 + 1", "1001"),
        ("6 × 7 ÷ 2 =", "21"),
        ("计算 3*3", "9"),
        ("1/3", "0.3333333333"),
    ],
)
def test_a_sum_is_worked_out(text: str, result: str) -> None:
    written = sums.find(text)
    assert written is not None
    assert sums.work_out(written) == result


@pytest.mark.parametrize("text", ["2026-11-22", "on 5/6/2026", "version 1.2", "call 555", "a-b", "", "3", "x1+2y"])
def test_dates_versions_and_numbers_are_no_sums(text: str) -> None:
    assert sums.find(text) is None


@pytest.mark.parametrize("written", ["1/0", "(1+2", "1+", "(", "1 2", "()"])
def test_what_has_no_result_gives_none(written: str) -> None:
    assert sums.work_out(written) is None


@given(st.text("0123456789+-*/(). ", max_size=60))
def test_no_string_of_signs_raises(written: str) -> None:
    assert isinstance(sums.work_out(written), str | None)
    found = sums.find(written)
    assert found is None or found.strip() in written


@given(st.integers(-999, 999), st.integers(-999, 999), st.sampled_from("+-*"))
def test_results_are_those_of_exact_arithmetic(left: int, right: int, sign: str) -> None:
    exact = {"+": left + right, "-": left - right, "*": left * right}[sign]
    assert Fraction(sums.work_out(f"{left}{sign}({right})") or "none") == exact
