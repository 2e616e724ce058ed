"""Slack's signature, with Slack's own library as the judge."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.signature import Clock, SignatureVerifier

from adapters.slack.signature import WINDOW, is_signed, signature

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
NOW = 1_531_420_618


class Still(Clock):
    def now(self) -> float:
        return NOW


JUDGE = SignatureVerifier(SECRET, Still())


def headers(timestamp: str, given: str) -> dict[str, str]:
    return {"x-slack-request-timestamp": timestamp, "x-slack-signature": given}


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=100).map(str.encode), st.integers(0, 10**11))
def test_it_signs_as_slack_does(body: bytes, seconds: int) -> None:
    assert signature(SECRET, str(seconds), body) == JUDGE.generate_signature(timestamp=str(seconds), body=body)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=100), st.integers(NOW - 400, NOW + 400))
def test_it_agrees_with_slacks_library(body: str, seconds: int) -> None:
    given = JUDGE.generate_signature(timestamp=str(seconds), body=body)
    assert given
    for one in (given, given.upper(), given[:-1], given.replace("v0", "v1"), ""):
        assert is_signed(SECRET, headers(str(seconds), one), body.encode(), NOW) == JUDGE.is_valid(
            body, str(seconds), one
        )


@pytest.mark.parametrize(
    "apart, fine", [(0, True), (WINDOW, True), (-WINDOW, True), (WINDOW + 1, False), (-301, False)]
)
def test_a_recorded_request_is_worth_nothing_later(apart: int, fine: bool) -> None:
    at = str(NOW + apart)
    assert is_signed(SECRET, headers(at, signature(SECRET, at, b"{}")), b"{}", NOW) is fine


@pytest.mark.parametrize("at", ["", "soon", "1e9", "1531420618.5", "-1", "١٥٣١٤٢٠٦١٨", "9" * 30, " 1531420618"])
def test_a_time_that_is_no_number_proves_nothing(at: str) -> None:
    assert not is_signed(SECRET, headers(at, signature(SECRET, at, b"{}")), b"{}", NOW)


def test_an_empty_secret_proves_nothing() -> None:
    assert not is_signed("", headers(str(NOW), signature("", str(NOW), b"{}")), b"{}", NOW)


def test_a_signature_of_strange_letters_is_only_wrong() -> None:
    assert not is_signed(SECRET, headers(str(NOW), "v0=ä\ud800"), b"{}", NOW)


def test_without_headers_nothing_is_proven() -> None:
    assert not is_signed(SECRET, {}, b"{}", time.time())
