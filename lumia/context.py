"""The step that is being executed: what it has asked for so far, all of it buffered until its commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lumia.errors import FlowError

if TYPE_CHECKING:
    from lumia.box import Box
    from lumia.ports import Claim, RunRequest, StoreOp
    from lumia.routes import PlanStep
    from lumia.runtime import Runtime


@dataclass
class StepContext:
    """One step in execution.

    starts and writes wait for the commit; overlay holds the written values for reads of this step; notes go into the
    step's journal detail; arcs are inline runs to be executed after the commit.
    """

    runtime: Runtime
    claim: Claim
    step: PlanStep
    plugin: str
    nexted: bool = False
    next_box: Box[Any] | None = None
    intercepted: bool = False
    reason: str = ""
    starts: list[RunRequest] = field(default_factory=list)
    writes: list[StoreOp] = field(default_factory=list)
    overlay: dict[str, tuple[str, Any]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    arcs: dict[str, Box[Any]] = field(default_factory=dict)
    closed: bool = False

    def ordinal(self) -> int:
        """Return the number of the next child of this step."""
        return len(self.starts)


_active: ContextVar[StepContext | None] = ContextVar("lumia_step", default=None)


def active() -> StepContext | None:
    """Return the step being executed here, or None outside of handlers."""
    step = _active.get()
    return None if step is None or step.closed else step


def required(call: str) -> StepContext:
    """Return the step being executed; raises `FlowError` naming `call` outside of one."""
    step = active()
    if step is None:
        raise FlowError(f"{call} works only while a handler runs; this code runs outside of any step")
    return step


@contextmanager
def executing(step: StepContext) -> Iterator[StepContext]:
    """Make `step` the active one; afterwards it accepts nothing more, so leftover threads can't add to it."""
    token = _active.set(step)
    try:
        yield step
    finally:
        _active.reset(token)
        step.closed = True


def annotate(**notes: Any) -> None:
    """Add notes (JSON values, e.g. tokens and cost) to this step's entry in the journal; outside a step: nothing."""
    step = active()
    if step is not None:
        step.notes.update(notes)
