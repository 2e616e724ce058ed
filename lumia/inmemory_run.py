"""One run as the in-memory transport keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lumia.dead import Failure
from lumia.flow import NEVER, Deferred
from lumia.journal import JournalEntry
from lumia.ports import Claim, RunRecord, RunRequest, StepRecord


@dataclass
class Run:
    """What was asked for, and how far it has come.

    pending: 1 for its own steps, and 1 for each attached child that has not finished. holds: it is the one in its lane.
    last: (step, token) of the last commit, and the answer it was given. unopened: no entry has told its first Box yet.
    due: when it goes on if it is delayed; place: of those due at once the lowest goes first. began_with: its first Box,
    with what has joined its burst; guests: the requests that did; burst_end: when nothing may join any more, 0 for no
    burst; slot: when its rate allows it. returning: it comes back to the front of its lane. stale: seconds over its
    max_age. deferred: see `Claim`. pushed: when its message was queued, by the monotonic clock.
    """

    request: RunRequest
    box: str
    started: float
    state: str = "queued"
    step: int = 0
    attempt: int = 0
    token: int = 0
    outcome: str = ""
    reason: str = ""
    ended: float = 0.0
    pending: int = 1
    holds: bool = False
    cancelled: str = ""
    handbacks: int = 0
    losses: int = 0
    failures: tuple[Failure, ...] = ()
    steps: list[StepRecord] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    last: tuple[tuple[int, int], Claim | None] | None = None
    unopened: bool = True
    due: float = 0.0
    place: int = 0
    began_with: str = ""
    guests: set[str] = field(default_factory=set)
    burst_end: float = 0.0
    slot: float = 0.0
    returning: bool = False
    stale: float = 0.0
    deferred: Deferred = NEVER
    pushed: float = 0.0

    @property
    def queue(self) -> str:
        """Return the queue of the step it is at, "" when its plan has none."""
        steps = self.request.plan.steps
        return steps[self.step].queue if steps else ""

    def claim(self) -> Claim:
        """Return the claim of its current step."""
        request = self.request
        return Claim(
            request.run_id, self.step, self.token, self.attempt, request.flow, request.id, request.key,
            request.root_id, request.cause, request.priority, request.plan, self.box, retry_of=request.retry_of,
            arc=request.arc, handbacks=self.handbacks, losses=self.losses, failures=self.failures, hold=request.hold,
            stale=self.stale, deferred=self.deferred,
        )  # fmt: skip

    def opened(self, entry: JournalEntry) -> JournalEntry:
        """Return an entry about this run, with the Box the run began with if it is the first one after the start."""
        first, self.unopened = self.unopened, False
        box = self.began_with or self.request.box
        return replace(entry, detail={**entry.detail, "box": box}) if first and box else entry

    def record(self) -> RunRecord:
        """Return what is told about it."""
        request = self.request
        steps = () if self.outcome else request.plan.steps
        return RunRecord(
            request.run_id, request.flow, request.id, request.key, request.root_id, request.cause, self.state,
            self.outcome, self.reason, self.started, self.ended, tuple(self.steps), tuple(self.children), self.box,
            self.attempt, steps[self.step].handler if steps else "",
        )  # fmt: skip
