"""What follows a step: one pure function that every transport drives (DESIGN §6).

It knows the four primitives and nothing of queues, clocks or storage, so the in-memory and the Celery transport can't
disagree on meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from lumia.errors import (
    BoxError,
    EffectError,
    FlowError,
    LaneError,
    ModelConfigError,
    PayloadError,
    RejectedError,
    StoreError,
    ToolPermissionError,
)
from lumia.journal import described
from lumia.routes import Plan, PlanStep

PERMANENT: tuple[type[BaseException], ...] = (
    FlowError,
    BoxError,
    EffectError,
    LaneError,
    PayloadError,
    StoreError,
    ModelConfigError,
    RejectedError,
    ToolPermissionError,
)
"""Errors a retry can't mend: they go to the dead letters at once."""


@dataclass(frozen=True)
class Ran:
    """A handler returned. next: next() was called. intercepted: intercept() was called. reason: what it gave as why.

    delay: seconds by which it puts its successor off.
    """

    next: bool = False
    intercepted: bool = False
    reason: str = ""
    delay: float = 0.0


@dataclass(frozen=True)
class Raised:
    """A handler raised, hung or was lost with its worker. permanent: trying again can't help."""

    error: str
    permanent: bool = False

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Return the result for `error`."""
        return cls(described(error), isinstance(error, PERMANENT))


@dataclass(frozen=True)
class Skipped:
    """The step was not run, e.g. because its handler was removed."""

    reason: str


@dataclass(frozen=True)
class Decision:
    """What follows.

    action: next (go to `index`, after `next_delay` seconds), end (the run's own steps are over), retry (the same step
    after `delay` seconds).
    step: the step's outcome; run: the run's outcome when it ends. dead: the step goes to the dead letters.
    retry_child: a child run with this step alone is started after `delay` seconds.
    """

    action: str
    step: str
    reason: str = ""
    index: int = 0
    run: str = ""
    delay: float = 0.0
    dead: bool = False
    retry_child: bool = False
    next_delay: float = 0.0


def after(plan: Plan, index: int, result: Ran | Raised | Skipped, attempt: int) -> Decision:
    """Return what follows step `index` of `plan` after try number `attempt` (from 1) ended with `result`."""
    step = plan.steps[index]
    if isinstance(result, Skipped):
        return _onward(plan, index, "skipped", result.reason)
    if isinstance(result, Raised):
        return _raised(plan, index, step, result, attempt)
    if step.kind == "pipe":
        return _piped(plan, index, result)
    if result.intercepted:
        return Decision("end", "block", result.reason or f"intercepted by {step.handler}", run="blocked")
    return _onward(plan, index, "next", result.reason)


def _piped(plan: Plan, index: int, result: Ran) -> Decision:
    if result.next:
        return _onward(plan, index, "next", result.reason, delay=result.delay)
    last = index + 1 == len(plan.steps)
    if last and not result.reason:
        return Decision("end", "stop", run="done")
    return Decision("end", "stop", result.reason or "no next()", run="stopped")


def _onward(plan: Plan, index: int, outcome: str, reason: str, *, dead: bool = False, delay: float = 0.0) -> Decision:
    if index + 1 < len(plan.steps):
        return Decision("next", outcome, reason, index=index + 1, dead=dead, next_delay=delay)
    return Decision("end", outcome, reason, run="done", dead=dead)


def _raised(plan: Plan, index: int, step: PlanStep, result: Raised, attempt: int) -> Decision:
    exhausted = result.permanent or attempt >= step.retry.attempts
    delay = step.retry.delay(attempt)
    lone_retry = len(plan.steps) == 1 or step.kind not in ("consumer", "cron")
    if not exhausted and lone_retry:
        return Decision("retry", "failed", result.error, index=index, delay=delay)
    if not exhausted:
        return _with_child(_onward(plan, index, "failed", result.error), delay)
    if step.kind in ("pipe", "interceptor") or len(plan.steps) == 1:
        return Decision("end", "failed", result.error, run="failed", dead=True)
    return _onward(plan, index, "failed", result.error, dead=True)


def _with_child(decision: Decision, delay: float) -> Decision:
    return Decision(
        decision.action, decision.step, decision.reason, decision.index, decision.run, delay=delay, retry_child=True
    )
