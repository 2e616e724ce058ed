"""What follows a step: one pure function that every transport drives (DESIGN §6).

It knows the four primitives and nothing of queues, clocks or storage, so the in-memory and the Celery transport can't
disagree on meaning.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lumia.errors import (
    BoxError,
    EffectError,
    FlowError,
    LaneError,
    ModelConfigError,
    PayloadError,
    RejectedError,
    RetryAfterError,
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


MAX_DEFERRED = 3600.0
"""Seconds for which the outside world may put a step off in all (`RetryAfterError`) before it is given up."""


@dataclass(frozen=True)
class Deferred:
    """How often the outside world has put a step off, and for how many seconds in all; these tries don't count."""

    times: int = 0
    seconds: float = 0.0

    def more(self, wait: float) -> Deferred:
        """Return it after one more time; less than a second counts as one, so that "at once" has an end, too."""
        return Deferred(self.times + 1, self.seconds + max(1.0, wait))


NEVER = Deferred()


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
    """A handler raised, hung or was lost with its worker.

    permanent: trying again can't help. wait: seconds after which the outside world wants to be asked again, None when
    it didn't say.
    """

    error: str
    permanent: bool = False
    wait: float | None = None

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Return the result for `error`."""
        wait = max(0.0, float(error.wait)) if isinstance(error, RetryAfterError) else None
        return cls(described(error), isinstance(error, PERMANENT), wait)


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
    retry_child: a child run with this step alone is started after `delay` seconds. deferred: given when the retry costs
    no try, since the outside world has put the step off.
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
    deferred: Deferred | None = None


def after(
    plan: Plan, index: int, result: Ran | Raised | Skipped, attempt: int, deferred: Deferred = NEVER
) -> Decision:  # fmt: skip
    """Return what follows step `index` of `plan` after try number `attempt` (from 1) ended with `result`.

    deferred: how the step was put off before.
    """
    step = plan.steps[index]
    if isinstance(result, Skipped):
        return _onward(plan, index, "skipped", result.reason)
    if isinstance(result, Raised):
        if result.wait is not None:
            return _put_off(plan, index, step, result, deferred)
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
    if result.permanent or attempt >= step.retry.attempts:
        return _given_up(plan, index, step, result.error)
    return _again(plan, index, step, result.error, step.retry.delay(attempt))


def _put_off(plan: Plan, index: int, step: PlanStep, result: Raised, deferred: Deferred) -> Decision:
    wait = result.wait or 0.0
    if may_wait(deferred, wait):
        return _again(plan, index, step, result.error, wait, deferred.more(wait))
    why = f"put off for {deferred.seconds:g} s so far and now for {wait:g} s; {MAX_DEFERRED:g} s in all is the most"
    return _given_up(plan, index, step, f"{result.error} ({why})")


def may_wait(deferred: Deferred, wait: float) -> bool:
    """Tell whether a step that was put off so far may be put off for `wait` seconds more."""
    return deferred.more(wait).seconds <= MAX_DEFERRED


def _again(
    plan: Plan, index: int, step: PlanStep, error: str, delay: float, deferred: Deferred | None = None
) -> Decision:  # fmt: skip
    if len(plan.steps) == 1 or step.kind not in ("consumer", "cron"):
        return Decision("retry", "failed", error, index=index, delay=delay, deferred=deferred)
    return replace(_onward(plan, index, "failed", error), delay=delay, retry_child=True, deferred=deferred)


def _given_up(plan: Plan, index: int, step: PlanStep, error: str) -> Decision:
    if step.kind in ("pipe", "interceptor") or len(plan.steps) == 1:
        return Decision("end", "failed", error, run="failed", dead=True)
    return _onward(plan, index, "failed", error, dead=True)
