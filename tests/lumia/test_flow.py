"""What follows a step, for every plan and every result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumia.errors import (
    BoxTypeError,
    EffectError,
    FlowError,
    LaneError,
    LumiaError,
    PayloadError,
    RejectedError,
    RetryAfterError,
    StoreError,
)
from lumia.flow import MAX_DEFERRED, Decision, Deferred, Raised, Ran, Skipped, after
from lumia.marks import Retry
from lumia.routes import Plan, PlanStep

STAGES = ("interceptor", "chain", "consumer", "cron")
REASONS = st.text(max_size=5)
RESULTS = (
    st.builds(Ran, next=st.booleans(), intercepted=st.just(False), reason=REASONS)
    | st.builds(Raised, error=st.text(min_size=1, max_size=9), permanent=st.booleans())
    | st.builds(Skipped, reason=st.just("removed"))
)


def step(kind: str, attempts: int = 3) -> PlanStep:
    return PlanStep(f"p.{kind}", kind, "1", "default", None, False, Retry(attempts, 1.0, 60.0))


def plan(*kinds: str, attempts: int = 3) -> Plan:
    return Plan.of([step(kind, attempts) for kind in kinds])


@st.composite
def situations(draw: st.DrawFn) -> tuple[Plan, int, Any, int]:
    kinds = draw(st.lists(st.just("pipe"), min_size=1, max_size=5) | st.lists(st.sampled_from(STAGES), min_size=1))
    index = draw(st.integers(0, len(kinds) - 1))
    result = draw(RESULTS)
    if kinds[index] == "interceptor" and isinstance(result, Ran) and draw(st.booleans()):
        result = Ran(intercepted=True, reason=draw(REASONS))
    return plan(*kinds, attempts=draw(st.integers(1, 4))), index, result, draw(st.integers(1, 6))


@given(situations())
def test_every_decision_leads_on_or_to_an_end(situation: tuple[Plan, int, Any, int]) -> None:
    chain, index, result, attempt = situation
    decision = after(chain, index, result, attempt)
    this = chain.steps[index]
    assert decision.action in ("next", "end", "retry")
    assert decision.step in ("next", "stop", "block", "failed", "skipped")
    assert bool(decision.run) == (decision.action == "end")
    assert decision.run in ("", "done", "stopped", "blocked", "failed")
    if decision.action == "next":
        assert decision.index == index + 1 < len(chain.steps)
    if decision.action == "retry":
        assert decision.index == index and not decision.dead and not decision.retry_child
    if decision.action == "retry" or decision.retry_child:
        assert isinstance(result, Raised) and not result.permanent
        assert attempt < this.retry.attempts
        assert decision.delay == this.retry.delay(attempt)
    else:
        assert decision.delay == 0
    if decision.dead:
        assert isinstance(result, Raised)
        assert result.permanent or attempt >= this.retry.attempts


@given(situations())
def test_a_failure_is_retried_or_given_up_but_never_dropped(situation: tuple[Plan, int, Any, int]) -> None:
    chain, index, result, attempt = situation
    decision = after(chain, index, result, attempt)
    if isinstance(result, Raised):
        ways = [decision.action == "retry", decision.retry_child, decision.dead]
        assert ways.count(True) == 1
        assert (decision.step, decision.reason) == ("failed", result.error)


@given(situations())
def test_only_a_pipeline_or_an_interceptor_can_keep_the_rest_from_running(
    situation: tuple[Plan, int, Any, int],
) -> None:
    chain, index, result, attempt = situation
    decision = after(chain, index, result, attempt)
    if decision.action == "end" and index + 1 < len(chain.steps):
        assert chain.steps[index].kind in ("pipe", "interceptor")


def test_a_pipeline_goes_on_with_next_and_is_done_after_its_last_handler() -> None:
    assert after(plan("pipe", "pipe"), 0, Ran(next=True), 1) == Decision("next", "next", index=1)
    assert after(plan("pipe", "pipe"), 1, Ran(next=True), 1) == Decision("end", "next", run="done")
    assert after(plan("pipe", "pipe"), 1, Ran(), 1) == Decision("end", "stop", run="done")


def test_a_pipeline_that_is_not_passed_on_is_stopped_with_a_reason() -> None:
    assert after(plan("pipe", "pipe"), 0, Ran(), 1) == Decision("end", "stop", "no next()", run="stopped")
    assert after(plan("pipe", "pipe"), 0, Ran(reason="cooldown"), 1).reason == "cooldown"
    assert after(plan("pipe"), 0, Ran(reason="cooldown"), 1) == Decision("end", "stop", "cooldown", run="stopped")


def test_an_interceptor_blocks_all_that_follows_and_a_reason_is_found_for_it() -> None:
    chain = plan("interceptor", "interceptor", "consumer")
    assert after(chain, 0, Ran(intercepted=True, reason="spam"), 1) == Decision("end", "block", "spam", run="blocked")
    assert after(chain, 0, Ran(intercepted=True), 1).reason == "intercepted by p.interceptor"
    assert after(chain, 0, Ran(), 1).action == "next"


def test_an_interceptor_that_keeps_failing_fails_closed() -> None:
    chain = plan("interceptor", "consumer")
    assert after(chain, 0, Raised("ill"), 2).action == "retry"
    assert after(chain, 0, Raised("ill"), 3) == Decision("end", "failed", "ill", run="failed", dead=True)


def test_a_chain_is_retried_in_place_and_goes_on_without_the_failing_link() -> None:
    chain = plan("chain", "consumer")
    assert after(chain, 0, Raised("ill"), 1) == Decision("retry", "failed", "ill", delay=1.0)
    assert after(chain, 0, Raised("ill"), 3) == Decision("next", "failed", "ill", index=1, dead=True)


def test_the_others_do_not_wait_for_a_consumer_that_fails() -> None:
    first = after(plan("consumer", "consumer"), 0, Raised("ill"), 1)
    assert (first.action, first.index, first.retry_child, first.dead) == ("next", 1, True, False)
    last = after(plan("consumer", "consumer"), 1, Raised("ill"), 1)
    assert (last.action, last.run, last.retry_child) == ("end", "done", True)


def test_a_lone_consumer_is_retried_in_place_and_its_run_fails_in_the_end() -> None:
    assert after(plan("consumer"), 0, Raised("ill"), 1).action == "retry"
    assert after(plan("consumer"), 0, Raised("ill"), 3) == Decision("end", "failed", "ill", run="failed", dead=True)


def test_a_removed_handler_is_skipped_and_the_run_goes_on() -> None:
    assert after(plan("pipe", "pipe"), 0, Skipped("removed"), 1) == Decision("next", "skipped", "removed", index=1)
    assert after(plan("pipe"), 0, Skipped("removed"), 1) == Decision("end", "skipped", "removed", run="done")


@pytest.mark.parametrize(
    "error", [FlowError, BoxTypeError, EffectError, LaneError, PayloadError, RejectedError, StoreError]
)
def test_a_mistake_in_the_handler_is_not_tried_again(error: type[LumiaError]) -> None:
    raised = Raised.of(error("wrong"))
    assert raised.permanent and raised.error == f"{error.__name__}: wrong"
    assert after(plan("pipe"), 0, raised, 1).dead


@pytest.mark.parametrize("error", [ValueError("no"), LumiaError("late"), RecursionError("deep"), KeyboardInterrupt()])
def test_any_other_error_may_pass(error: BaseException) -> None:
    assert not Raised.of(error).permanent


def test_being_put_off_costs_no_try_and_comes_back_when_it_was_told() -> None:
    told = Raised.of(RetryAfterError("busy", wait=7.5))
    found = after(plan("pipe"), 0, told, 3, Deferred(2, 10.0))
    assert found == Decision("retry", "failed", told.error, index=0, delay=7.5, deferred=Deferred(3, 17.5))
    first = after(plan("consumer", "consumer"), 0, told, 3)
    assert (first.action, first.retry_child, first.delay, first.deferred) == ("next", True, 7.5, Deferred(1, 7.5))


@pytest.mark.parametrize("before, wait", [(0.0, MAX_DEFERRED + 1), (MAX_DEFERRED, 0.0), (MAX_DEFERRED - 5, 6.0)])
def test_being_put_off_has_an_end(before: float, wait: float) -> None:
    found = after(plan("pipe"), 0, Raised.of(RetryAfterError("busy", wait=wait)), 1, Deferred(9, before))
    assert found.dead and "3600 s in all is the most" in found.reason


@pytest.mark.parametrize(
    "wait, kept", [(7.5, 7.5), (-1, 0), (float("inf"), 86400), (float("nan"), 86400), (1e300, 86400)]
)
def test_nobody_is_made_to_wait_for_longer_than_a_day_or_for_no_time_at_all(wait: float, kept: float) -> None:
    assert RetryAfterError("later", wait=wait).wait == kept
