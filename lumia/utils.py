"""The three words a handler says to the chain: `next`, `intercept` and `stop` (spec §5.4, DESIGN §6)."""

from __future__ import annotations

from typing import Any

from lumia.box import Box, require
from lumia.context import required
from lumia.errors import FlowError


def next(box: Box[Any] | None = None) -> None:
    """Pass the run on to the next handler of the pipeline once this step is committed.

    box: the content for the next handler; without it the Box stays, with edits of its `meta`. Raises `FlowError` when
    called twice, after `stop()`, or outside a pipeline handler.
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
    step.nexted, step.next_box = True, box


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
