"""The plan follows from the seed, fits into its time, and names only faults there are."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.chaos.__main__ import PEER_SHARE
from bench.chaos.faults import KINDS
from bench.chaos.plan import catalogue, chosen, make
from tasks.failpoints import parse
from tasks.scripts import NAMES


@given(st.integers(0, 10**6), st.floats(10, 900))
def test_a_plan_is_the_same_for_the_same_seed_and_fits_its_phases(seed: int, seconds: float) -> None:
    phases = make(seed, seconds, catalogue())
    assert phases == make(seed, seconds, catalogue())
    for phase in phases:
        assert all(later.at >= earlier.at + earlier.seconds for earlier, later in pairwise(phase.faults))
        assert all(phase.begin <= fault.at and fault.at + fault.seconds <= phase.end for fault in phase.faults)


def test_another_seed_is_another_plan() -> None:
    assert make(1, 300, catalogue()) != make(2, 300, catalogue())


def test_every_fault_that_is_drawn_can_be_done_and_a_full_campaign_draws_each() -> None:
    assert {entry.name for entry in catalogue()} == set(KINDS)
    for seed in range(20):
        drawn = {fault.name for phase in make(seed, 540 * (1 - PEER_SHARE), catalogue()) for fault in phase.faults}
        assert drawn == set(KINDS)


def test_the_failpoints_of_the_plan_are_failpoints() -> None:
    for entry in catalogue():
        assert all(parse(part, NAMES) for part in entry.text.split("|") if entry.text)


def test_patterns_choose_faults_and_a_wrong_one_is_named() -> None:
    assert {entry.name for entry in chosen(catalogue(), ["kill-b*", "hung"])} == {"kill-beat", "kill-broker", "hung"}
    with pytest.raises(ValueError, match=r"no fault is called 'kil'; there are kill-worker, "):
        chosen(catalogue(), ["kil"])
