"""The campaign's accounting finds what is planted: a campaign that could not fail would prove nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.chaos.trace import Recoveries
from bench.chaos.verdict import Accepted, Evidence, judge

GROUPS = {"a": [0, 1, 2, 3], "b": [0, 1, 2]}
ACCEPTED = [Accepted(group, n, float(n), f"run-{group}{n}") for group, numbers in GROUPS.items() for n in numbers]
CLEAN = Evidence(
    ACCEPTED,
    done=GROUPS,
    children=GROUPS,
    retried=Counter({"a/0": 1}),
    held=Counter({"a/1": 1}),
    replies=Counter({"b/0": 1}),
    marked={"retry": frozenset({"a/0"}), "hold": frozenset({"a/1"}), "reply": frozenset({"b/0"})},
    ticks=[1.0, 2.0, 3.0],
    revoked={"r": "cancelled"},
    recoveries=Recoveries((1.0, 5.0)),
)


def test_a_clean_campaign_is_found_clean() -> None:
    verdict = judge(CLEAN)
    assert verdict.ok
    assert verdict.figures["accepted"] == verdict.figures["committed"] == 7
    assert verdict.figures["recovery p99 s"] == 5.0


PLANTED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("lost", {"done": {**GROUPS, "a": [0, 1, 3]}}, ["a/2"]),
    ("lost", {"done": {"b": [0, 1, 2]}, "children": {"b": [0, 1, 2]}}, ["a/0", "a/1", "a/2", "a/3"]),
    (
        "unfinished",
        {"done": {**GROUPS, "a": [0, 1, 3]}, "children": None, "unfinished": frozenset({"a/2", "b/1"})},
        ["a/2"],
    ),
    ("duplicated", {"done": {**GROUPS, "a": [0, 1, 1, 2, 3]}}, ["a/1"]),
    ("order", {"done": {**GROUPS, "a": [0, 2, 1, 3]}}, ["a/1"]),
    ("never accepted", {"done": {**GROUPS, "a": [0, 1, 2, 3, 9]}, "children": None}, ["a/9"]),
    ("children lost", {"children": {**GROUPS, "b": [0, 2]}}, ["b/1"]),
    ("children duplicated", {"children": {**GROUPS, "b": [0, 1, 1, 2]}}, ["b/1"]),
    ("children order", {"children": {**GROUPS, "b": [1, 0, 2]}}, ["b/0"]),
    ("effects lost", {"retried": Counter()}, ["a/0"]),
    ("hold effects lost", {"held": Counter()}, ["a/1"]),
    ("hold effects twice", {"held": Counter({"a/1": 2})}, ["a/1"]),
    ("replies lost", {"replies": Counter()}, ["b/0"]),
    ("ticks lost", {"ticks": [1.0, 3.0]}, ["2.0"]),
    ("ticks duplicated", {"ticks": [1.0, 2.0, 2.0, 3.0]}, ["2.0"]),
    ("unexpected dead letters", {"dead": {"run-x": "boom"}}, ["run-x: boom"]),
    ("revoked runs stuck", {"revoked": {"r": ""}}, ["r"]),
    ("live steps run again", {"rerun": 2}, ["2"]),
    ("slow recovery", {"recoveries": Recoveries((1.0, 11.0), (30.0,))}, ["11.0 s"]),
]


@pytest.mark.parametrize("name, changes, found", PLANTED, ids=[name for name, _, _ in PLANTED])
def test_a_planted_violation_is_found_and_named(name: str, changes: dict[str, Any], found: list[str]) -> None:
    verdict = judge(replace(CLEAN, **changes))
    assert not verdict.ok
    assert {violation: list(named) for violation, named in verdict.violations.items()} == {name: found}


def test_poison_hung_steps_and_held_effects_may_be_dead_letters() -> None:
    reason = "EffectError: effect 'x' was begun and its outcome is unknown; its policy is 'hold'"
    done = {"a": [0, 1, 2], "b": [0, 1, 2]}
    dead = {"poison": "the tries before it were lost with their workers", "run-a3": reason}
    seen = replace(CLEAN, done=done, children=done, dead=dead, expected_dead=frozenset({"poison"}))
    verdict = judge(seen)
    assert verdict.ok, verdict.violations
    assert verdict.figures["dead letters, expected"] == 2


def test_a_message_whose_acceptance_is_unknown_may_come_out_once_and_anywhere() -> None:
    accepted = [one for one in ACCEPTED if str(one) != "a/1"]
    unsure = replace(CLEAN, accepted=accepted, unsure=frozenset({"a/1"}), held=Counter(), marked={}, replies=Counter())
    for numbers in ([0, 2, 3], [0, 2, 3, 1]):
        found = {**GROUPS, "a": numbers}
        assert judge(replace(unsure, done=found, children=found)).ok
    twice = {**GROUPS, "a": [0, 1, 2, 1, 3]}
    assert list(judge(replace(unsure, done=twice, children=GROUPS)).violations) == ["duplicated"]


def test_what_everysec_may_lose_is_counted_apart() -> None:
    done = {**GROUPS, "a": [0, 1, 2]}
    verdict = judge(replace(CLEAN, done=done, children=done, exposed=frozenset({"a/3"})))
    assert verdict.ok
    assert (verdict.figures["lost"], verdict.figures["lost within the fsync window"]) == (0, 1)


def test_repeated_retry_effects_are_counted_and_allowed() -> None:
    verdict = judge(replace(CLEAN, retried=Counter({"a/0": 3}), replies=Counter({"b/0": 2})))
    assert verdict.ok
    assert verdict.figures["unknown effects made again"] == 3


def test_the_peer_is_measured_without_lumias_promises() -> None:
    verdict = judge(Evidence(ACCEPTED, done={"a": [1, 0, 0], "b": [0, 1, 2]}), strict=False)
    assert {name: len(found) for name, found in verdict.violations.items()} == {"lost": 2, "duplicated": 1, "order": 2}
    assert "recovery p99 s" not in verdict.figures


@given(st.permutations(range(6)), st.lists(st.integers(0, 5), max_size=3), st.sets(st.integers(0, 5), max_size=3))
def test_the_counts_are_those_of_any_list(order: list[int], again: list[int], dropped: set[int]) -> None:
    numbers = [n for n in order if n not in dropped] + [n for n in again if n not in dropped]
    accepted = [Accepted("g", n, 0.0) for n in range(6)]
    figures = judge(Evidence(accepted, done={"g": numbers}), strict=False).figures
    assert figures["lost"] == len(dropped)
    assert figures["duplicated commits"] == len({n for n in again if n not in dropped})
    assert figures["committed"] == 6 - len(dropped)
    assert (figures["order violations"] == 0) == (numbers == sorted(numbers))
