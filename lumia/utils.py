"""The three words a handler says to the chain: `next`, `intercept` and `stop` (spec §5.4, DESIGN §6)."""

from __future__ import annotations

from typing import Any

from lumia.box import Box, require
from lumia.bus import check_pause
from lumia.context import required
from lumia.errors import FlowError


def next(box: Box[Any] | None = None, *, delay: float = 0.0) -> None:
    """Pass the run on to the next handler of the pipeline once this step is committed.

    box: the content for the next handler; without it the Box stays, with edits of its `meta`. delay: seconds after the
    commit at which the next handler begins at the earliest, up to 60; the lane stays held, no thread waits, and a
    replay goes on at once. Raises `FlowError` when called twice, after `stop()`, outside a pipeline handler, for a
    delay that is none, and for one of a run with a live resource, which never leaves its process.
    """
    step = required("next()")
    if step.step.kind != "pipe":
        raise FlowError(
            f"{step.step.handler} is a {step.step.kind}: next() belongs to pipelines; "
            "events always go on, an event chain changes the content by returning a Box"
        )
    if step.nexted:
        raise FlowError(f"{step.step.handler} called next() twice; a step has one successor")
    if step.reason:
        raise FlowError(f"{step.step.handler} called next() after stop({step.reason!r}); a step does one or the other")
    if box is not None:
        require(box, f"next() in {step.step.handler}")
    check_pause(step, delay)
    step.nexted, step.next_box, step.next_delay = True, box, float(delay)


def stop(reason: str) -> None:
    """Say why this handler does not call `next()`: the reason stands in the trace of the run."""
    step = required("stop()")
    if step.step.kind != "pipe":
        raise FlowError(f"{step.step.handler} is a {step.step.kind}: only a pipeline can be stopped")
    if step.nexted:
        raise FlowError(f"{step.step.handler} called stop() after next(); a step does one or the other")
    step.reason = str(reason) or "stopped"


def intercept(reason: str | None = None) -> None:
    """Block the event: no later interceptor, chain handler or consumer sees it. Only interceptors may (spec §4.1.3)."""
    step = required("intercept()")
    if step.step.kind != "interceptor":
        raise FlowError(f"{step.step.handler} is a {step.step.kind}: only an interceptor can block an event")
    step.intercepted, step.reason = True, "" if reason is None else str(reason)
