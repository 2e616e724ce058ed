"""The step that is being executed: what it has asked for so far, all of it buffered until its commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lumia.errors import FlowError, PayloadError
from lumia.journal import clean

if TYPE_CHECKING:
    from random import Random

    from lumia.box import Box
    from lumia.ports import Claim, RunRequest, StoreOp
    from lumia.recording import Reads, Source
    from lumia.routes import PlanStep
    from lumia.runtime import Runtime


@dataclass
class StepContext:
    """One step in execution.

    starts and writes wait for the commit of a step that did not fail, kept writes for that of one that did. overlay
    holds the written values for reads of this step; notes go into the step's journal detail; arcs are inline runs
    to be executed after the commit; effects holds what each key was called with and the wire text of its result (""
    while it is unknown); figures sums tokens and cost of the calls made. reads are recorded for replay; in a replay
    the player answers instead of the world. chance is where its ids come from.
    """

    runtime: Runtime
    claim: Claim
    step: PlanStep
    plugin: str
    nexted: bool = False
    next_box: Box[Any] | None = None
    next_delay: float = 0.0
    intercepted: bool = False
    reason: str = ""
    starts: list[RunRequest] = field(default_factory=list)
    writes: list[StoreOp] = field(default_factory=list)
    kept: list[StoreOp] = field(default_factory=list)
    overlay: dict[str, tuple[str, Any]] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    arcs: dict[str, Box[Any]] = field(default_factory=dict)
    effects: dict[str, tuple[Any, str]] = field(default_factory=dict)
    closed: bool = False
    figures: dict[str, float] | None = None
    reads: Reads | None = None
    player: Source | None = None
    chance: Random | None = None

    def ordinal(self) -> int:
        """Return the number of the next child of this step."""
        return len(self.starts)


MAX_NOTES = 16 * 1024

_active: ContextVar[StepContext | None] = ContextVar("lumia_step", default=None)


def here() -> StepContext | None:
    """Return the step this code belongs to, also when that has ended, or None outside of handlers."""
    return _active.get()


def active(call: str = "this") -> StepContext | None:
    """Return the step being executed here, or None outside of handlers.

    Raises `FlowError` naming `call` in a thread or task that a step left behind: nothing it does can be committed.
    """
    step = _active.get()
    if step is not None and step.closed:
        raise FlowError(
            f"{step.step.handler} has ended in run {step.claim.run_id}, so a thread or task it left behind can't call "
            f"{call}: join it inside the handler, or begin it in a context of its own (contextvars.Context().run) and "
            "it counts as code outside of handlers"
        )
    return step


def required(call: str) -> StepContext:
    """Return the step being executed; raises `FlowError` naming `call` outside of one."""
    step = active(call)
    if step is None:
        raise FlowError(f"{call} works only while a handler runs; this code runs outside of any step")
    return step


def lane() -> str:
    """Return the lane of the running step, "" when its run is in none; raises `FlowError` outside of handlers."""
    return required("lumia.context.lane()").claim.key


def origin() -> tuple[str, int]:
    """Return (run id, step) under which the running step's writes to other stores are made: in a retry the same.

    With the number of the write within the step they make a unique key. Raises `FlowError` outside of a step.
    """
    run_id, _, step = required("lumia.context.origin()").claim.ledger.rpartition("/")
    return run_id, int(step)


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
    """Add notes (JSON values, e.g. tokens and cost) to this step's entry in the journal; outside a step: nothing.

    Raises `PayloadError` for a value that is no JSON, and for more than 16 KiB of notes.
    """
    step = active("annotate()")
    if step is None:
        return
    merged = {**step.notes, **notes}
    try:
        text = json.dumps(merged, allow_nan=False)
        kept = _cleaned(json.loads(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError(f"annotate() in {step.step.handler}: {error}; notes are JSON values") from error
    if len(text) > MAX_NOTES:
        raise PayloadError(
            f"annotate() in {step.step.handler}: {len(text)} characters of notes, the journal takes {MAX_NOTES} per "
            "step; keep the data in lumia.store or lumia.blobs"
        )
    step.notes = kept


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value, MAX_NOTES)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(name, MAX_NOTES): _cleaned(item) for name, item in value.items()}
    return value
