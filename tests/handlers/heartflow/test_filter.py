"""The rules of L0 as pure functions (spec §12.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.heartflow.filter import RULES, Facts, Limits, Verdict, decide, in_window

NOW = 1_800_000_000.0
FINE = Facts(now=NOW, arrived=NOW, sender=frozenset({"7", "qq:7"}), kinds=frozenset({"text"}))
LIMITS = Limits(min_reply_interval=3.0, rate_limit=2, rate_window=60.0, blacklist=frozenset({"qq:13"}))
OBJECTIONS: list[tuple[dict[str, Any], str]] = [
    ({"last_send": NOW - 1.8}, "cooldown: 1.2 s of 3 s left"),
    ({"sender": frozenset({"13", "qq:13"})}, "blacklist: sender qq:13"),
    ({"kinds": frozenset({"file", "video"})}, "message type not handled: file, video"),
    ({"counted": (NOW - 5, NOW - 1)}, "rate limit: 2 messages in 60 s, 2 allowed"),
]

stamps = st.floats(min_value=0, max_value=4e9)
facts = st.builds(
    Facts,
    now=stamps,
    arrived=stamps,
    sender=st.frozensets(st.sampled_from(["7", "qq:7", "13", "qq:13"])),
    kinds=st.frozensets(st.sampled_from(["text", "image", "file", "mention"])),
    addressed=st.booleans(),
    last_send=st.none() | stamps,
    counted=st.lists(stamps, max_size=5).map(tuple),
)
limits = st.builds(
    Limits,
    min_reply_interval=st.floats(min_value=0, max_value=1e5),
    rate_limit=st.integers(min_value=0, max_value=5),
    rate_window=st.floats(min_value=1, max_value=1e5),
    handled_types=st.frozensets(st.sampled_from(["text", "image", "mention"])),
    blacklist=st.frozensets(st.sampled_from(["13", "qq:7"])),
)


def test_a_plain_message_passes_and_engages_nobody() -> None:
    assert decide(FINE, LIMITS) == Verdict(stop=None, force_engage=False)


def test_a_mention_forces_the_bot_to_engage() -> None:
    assert decide(replace(FINE, addressed=True), LIMITS) == Verdict(force_engage=True)


@pytest.mark.parametrize("broken, reason", OBJECTIONS)
def test_each_rule_stops_with_its_reason(broken: dict[str, Any], reason: str) -> None:
    assert decide(replace(FINE, **broken), LIMITS) == Verdict(stop=reason)


@pytest.mark.parametrize("first", range(len(OBJECTIONS)))
def test_the_first_rule_that_objects_gives_the_reason(first: int) -> None:
    broken = {key: value for change, _ in OBJECTIONS[first:] for key, value in change.items()}
    assert decide(replace(FINE, **broken), LIMITS).stop == OBJECTIONS[first][1]


@pytest.mark.parametrize("broken, reason", OBJECTIONS)
def test_a_mention_overrules_no_rule(broken: dict[str, Any], reason: str) -> None:
    mentioned = replace(FINE, addressed=True, **broken)
    assert decide(mentioned, LIMITS) == Verdict(stop=reason, force_engage=False)


@given(facts, limits)
def test_the_verdict_is_the_first_objection_in_the_order_of_the_spec(facts: Facts, limits: Limits) -> None:
    objections = [reason for rule in RULES if (reason := rule(facts, limits))]
    verdict = decide(facts, limits)
    assert verdict.stop == (objections[0] if objections else None)
    assert verdict.force_engage == (facts.addressed and not objections)


@given(facts, st.floats(min_value=0.001, max_value=1e5))
def test_a_cooldown_is_over_after_its_interval_whatever_the_clock_did(facts: Facts, interval: float) -> None:
    limits = Limits(min_reply_interval=interval, handled_types=facts.kinds | {"text"})
    sent = facts.last_send or 0.0
    later = replace(facts, last_send=sent, now=sent + interval * 1.001 + 0.001, kinds=frozenset({"text"}))
    assert decide(later, limits).stop is None
    assert decide(replace(later, now=max(0.0, sent - interval * 1.001 - 0.001)), limits).stop is None or sent < interval


@given(st.lists(stamps, max_size=30), st.integers(min_value=1, max_value=6), st.floats(min_value=1, max_value=3600))
def test_no_window_ever_holds_more_than_the_limit(times: list[float], limit: int, window: float) -> None:
    limits = Limits(rate_limit=limit, rate_window=window)
    passed: list[float] = []
    for at in sorted(times):
        if decide(replace(FINE, arrived=at, counted=tuple(passed[-limit:])), limits).stop is None:
            passed.append(at)
    for start in passed:
        assert sum(1 for at in passed if 0 <= at - start < window) <= limit


@given(st.lists(stamps), stamps, st.floats(min_value=1, max_value=1e6))
def test_only_stamps_near_the_message_count(times: list[float], at: float, window: float) -> None:
    kept = in_window(times, at, window)
    assert set(kept) == {stamp for stamp in times if abs(stamp - at) < window}


def test_text_beside_a_file_is_handled() -> None:
    assert decide(replace(FINE, kinds=frozenset({"file", "text"})), LIMITS).stop is None


def test_an_empty_message_is_named_as_such() -> None:
    assert decide(replace(FINE, kinds=frozenset()), LIMITS).stop == "message type not handled: empty message"


def test_zero_switches_cooldown_and_rate_off() -> None:
    busy = replace(FINE, last_send=NOW, counted=(NOW,) * 100)
    assert decide(busy, Limits()).stop is None
