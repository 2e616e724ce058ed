"""The ports: what the mechanism asks of a transport, and the values that cross them.

Two implementations ship: `lumia.inmemory` (one process, for tests and development) and `tasks` (Celery on Redis). Both
run the suite in `tests/conformance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lumia.dead import DeadFilter, DeadLetter, Failure
from lumia.flow import NEVER, Deferred
from lumia.history import History
from lumia.journal import JournalEntry
from lumia.lanes import LaneOptions, LaneReport, Rate, Verdict
from lumia.marks import NORMAL
from lumia.routes import Plan, RouteTable

if TYPE_CHECKING:
    from lumia.deployment import Deployments
    from lumia.runtime import Runtime


@dataclass(frozen=True)
class RunRequest:
    """One run to be started.

    box: wire text. key: lane. parent: run that causes it, "" for none; cause: "run/step". attached: counts into its
    parent's tree. delay: seconds. dedup: a second start under this text within the window returns the first run.
    inside: runs within the lane its parent holds. attempt: tries already made; failures: how they ended; retry_of: the
    "run/step" whose effects the first step shares, the second those of the step after it, and so on. arc: the Box is a
    live resource, the run is executed inline by the process that starts it. hold: it and all it starts reach no chat,
    see `lumia.held`. lane, rate: what it asks of its lane, and how often it may be started. returning: it had its turn
    in the lane before, and comes back to the lane's front. deferred: see `Claim`. in_line: it comes from outside and
    lines up behind what the inbox holds (`Inbox`). kept: seconds it has spent there.
    """

    run_id: str
    flow: str
    id: str
    plan: Plan
    box: str
    key: str = ""
    cause: str = ""
    parent: str = ""
    root_id: str = ""
    attached: bool = True
    inside: bool = False
    delay: float = 0.0
    dedup: str = ""
    priority: int = NORMAL
    attempt: int = 0
    retry_of: str = ""
    arc: bool = False
    failures: tuple[Failure, ...] = ()
    hold: bool = False
    lane: LaneOptions | None = None
    rate: Rate | None = None
    returning: bool = False
    deferred: Deferred = NEVER
    in_line: bool = False
    kept: float = 0.0

    @property
    def limit_name(self) -> str:
        """Return the name its rate is counted under."""
        named = self.rate.name if self.rate is not None else ""
        return named or f"{self.flow} {self.id}" + (f" in {self.key}" if self.key else "")


@dataclass(frozen=True)
class Started:
    """The answer to a start: the run that serves it, whether that was there before, and whether it took this one in."""

    run_id: str
    duplicate: bool = False
    joined: bool = False


@dataclass(frozen=True)
class Claim:
    """The right to execute one step, until the deadline or the worker's death.

    token: the fencing token. waited: seconds its message spent in the queue, 0 for a step that needed none.
    stale: seconds by which the run was over its `max_age` when it got its turn. deferred: how the outside world
    has put this step off so far (`RetryAfterError`).
    """

    run_id: str
    step: int
    token: int
    attempt: int
    flow: str
    id: str
    key: str
    root_id: str
    cause: str
    priority: int
    plan: Plan
    box: str
    retry_of: str = ""
    arc: bool = False
    handbacks: int = 0
    overdue: int = 0
    waited: float = 0.0
    losses: int = 0
    failures: tuple[Failure, ...] = ()
    hold: bool = False
    stale: float = 0.0
    deferred: Deferred = NEVER

    @property
    def shared(self) -> str:
        """Return the "run/step" whose effects this step shares, "" when they are its own."""
        run, _, first = self.retry_of.rpartition("/")
        return f"{run}/{int(first) + self.step}" if run else ""

    @property
    def ledger(self) -> str:
        """Return the "run/step" under which this step's effects are recorded."""
        return self.shared or f"{self.run_id}/{self.step}"

    @property
    def tries(self) -> int:
        """Return the number of this try among those that count as failed: without the lost ones and those put off."""
        return max(1, self.attempt - self.overdue - self.losses - self.deferred.times)


@dataclass(frozen=True)
class StoreOp:
    """One buffered write. op: set, delete, incr, append, or put and add (set one field, or add to it).

    value: JSON text; a number for incr and add.
    """

    op: str
    key: str
    value: str = ""
    field: str = ""
    ttl: float | None = None
    keep: int = 0


@dataclass(frozen=True)
class Commit:
    """Everything that ends a step, written at once or not at all.

    action: next, end, retry or handback (another worker shall take it). delay: seconds before the run goes on after any
    of them but end. box: new wire text or None when unchanged. record: the step's line in the run record. fuse: this
    process executes the next step at once. batch: it takes the queue's next run when this one has ended. failures:
    every try of the step so far, for the one to come. release: a retry lets the lane's next run go ahead. free: a
    handback that does not count as one. deferred: given for a retry that costs no try, what `Claim.deferred` is then.
    """

    action: str
    record: StepRecord
    entry: JournalEntry
    index: int = 0
    outcome: str = ""
    reason: str = ""
    delay: float = 0.0
    box: str | None = None
    children: tuple[RunRequest, ...] = ()
    store: tuple[StoreOp, ...] = ()
    dead: DeadLetter | None = None
    fuse: bool = False
    batch: bool = False
    failures: tuple[Failure, ...] = ()
    release: bool = False
    free: bool = False
    deferred: Deferred | None = None


@dataclass(frozen=True)
class StepRecord:
    """What became of a step: outcome next, stop, block, failed, skipped or retry."""

    handler: str
    outcome: str
    reason: str = ""
    ms: float = 0.0
    attempt: int = 1


@dataclass(frozen=True)
class RunRecord:
    """What is known of a run. state: waiting, queued, claimed, delayed, ended (children still run) or finished.

    handler: of the step it is at.
    """

    run_id: str
    flow: str
    id: str
    key: str
    root_id: str
    cause: str
    state: str
    outcome: str
    reason: str
    started: float
    ended: float
    steps: tuple[StepRecord, ...]
    children: tuple[str, ...]
    box: str
    attempt: int = 0
    handler: str = ""

    @property
    def finished(self) -> bool:
        """Tell whether the run and all its attached children have ended."""
        return self.state == "finished"


@dataclass(frozen=True)
class EffectRecord:
    """A recorded call. value: wire text of the result (see `lumia.compressed`), or the reason when there is none.

    state: `intended` while a try makes it, `done`, `failed` (it raised; it may be made again), or `unknown` (its try
    ended without a result). token, run_id, step: the try that wrote it; no token when it was settled by hand.
    """

    state: str
    value: str = ""
    policy: str = "retry"
    token: int = 0
    run_id: str = ""
    step: int = 0


@dataclass(frozen=True)
class EffectUse:
    """A use of an effect by a claimed step. run_id, name: its place in the ledger, "step:key" of the run it belongs to.

    entry: what journal entries about it have in common; their outcome and reason are added.
    """

    run_id: str
    name: str
    policy: str
    entry: JournalEntry


LOST = "the try before ended without a result"
"""Why an intent that another try left is `unknown`."""
HELD = "its outcome is unknown and its policy is 'hold'"
REPLAYED = "recorded by an earlier try"


@dataclass(frozen=True)
class Limits:
    """The figures of the configuration that a transport needs; times in seconds, sizes in bytes.

    journal_bytes: what the journal may take at most before its oldest entries are dropped, archived or not.
    handbacks: how often workers that can't execute a step may hand it on. drain: how long a worker that was
    asked to end may take. max_losses: how often a step may be lost with its worker. ageing: how long a message may
    wait behind more urgent ones, 0 for ever.
    """

    step_timeout: float = 60.0
    max_losses: int = 5
    dedup_window: float = 3600.0
    keep_runs: float = 3600.0
    journal_bytes: int = 128 << 20
    fuse: bool = True
    batch: int = 64
    batch_seconds: float = 0.05
    concurrency: int = 16
    handbacks: int = 30
    drain: float = 20.0
    ageing: float = 30.0


@dataclass(frozen=True)
class Health:
    """Whether the transport can accept and execute. detail: what is wrong, or "" when all is well."""

    ok: bool
    workers: tuple[str, ...] = ()
    detail: str = ""
    counters: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueInfo:
    """A queue and what waits in it. oldest: seconds its first message has been there, 0 for an empty one.

    served: the processes that take messages from it; told of private queues only, which not every worker serves.
    """

    name: str
    waiting: int
    oldest: float = 0.0
    served: tuple[str, ...] = ()


ANY = DeadFilter()


class Kept(NamedTuple):
    """A start that is accepted before it is planned. text: what `lumia.inbox` reads; dedup: as of `RunRequest`."""

    run_id: str
    dedup: str
    text: str


class Inbox(Protocol):
    """Where starts are accepted when they come faster than they can be planned: stored in order, with their dedup text.

    Workers take them out in that order and start them, each in an atomic step that also takes it out. While it holds
    any, `Transport.start` lines up behind them whatever is `RunRequest.in_line`, so that nothing is overtaken.
    """

    async def keep_here(self, starts: Sequence[Kept]) -> tuple[int, list[str]] | None:
        """Do what `keep` does, on the running event loop; None where it can't be told whether it was done.

        Then `keep` does it, or tells why it can't be: the same starts are stored once.
        """

    async def leave(self) -> None:
        """Close what `keep_here` has opened on the running event loop."""

    def keep(self, starts: Sequence[Kept]) -> tuple[int, list[str]]:
        """Store starts; returns how many were there before, and for each the run that serves it.

        That is another run's for a duplicate. Sent again it gives the same answer. Raises `BackendUnavailableError`.
        """

    def waiting(self) -> tuple[int, float]:
        """Return how many starts it holds, and the seconds the first of them has been there."""


class Embedded(Protocol):
    """A consumer of queues inside a process that does something else, as the gateway; safe for threads."""

    def add(self, queue: str) -> None:
        """Take messages from one more queue; returns at once, and what the broker's absence delays comes later."""

    def cancel(self, queue: str) -> None:
        """Take no more messages from a queue; steps that are being executed go on."""

    def drain(self, seconds: float) -> bool:
        """Take no more messages at all, and wait for what is being executed; tell whether it all ended in time."""

    def stop(self) -> None:
        """End; what is still being executed is left to other processes."""


class Transport(Protocol):
    """Carries runs from start to end. Every write is atomic; a repeated call gives the first answer again."""

    limits: Limits
    inbox: Inbox | None
    """None where to plan a start is no more work than to store it."""

    def start(self, requests: Sequence[RunRequest], *, routes: int | None = None) -> list[Started]:
        """Accept the requests in one atomic step; a duplicate of the first one starts none of them.

        routes: the table number the plans were made with; raises `StaleRoutesError` when a newer one is published,
        `LaneFullError` and `RateLimitedError` when a lane or a rate refuses one of them: then none was accepted.
        """

    def start_each(
        self, starts: Sequence[Sequence[RunRequest]], *, routes: int | None = None
    ) -> list[list[Started] | Exception]:
        """Accept several starts in one trip, each an atomic step of its own, in this order.

        Returns for each what `start` returns for it, or the error it raises; one that fails leaves the others be.
        """

    def commit(self, claim: Claim, commit: Commit) -> Claim | None:
        """End a step. Returns the next claim for this process (fused or batched) or None; `StaleClaimError` if lost."""

    def begin_inline(self, run_id: str) -> Claim:
        """Return the claim of an Arc run that this process has started."""

    def run(self, run_id: str) -> RunRecord | None:
        """Return a run's record, or None when it is unknown or no longer kept."""

    def lane_holder(self, key: str) -> str:
        """Return the run whose tree is served in a lane, "" when none is."""

    def wait(self, run_id: str, timeout: float) -> RunRecord:
        """Wait until a run's tree has finished; raises `RunTimeoutError` or `UnknownRunError`."""

    def cancel(self, run_id: str, reason: str) -> bool:
        """End a run and its attached children as cancelled, at their next commit or at once; False when all had ended.

        A run whose own steps have ended keeps its outcome; its children that still run are cancelled.
        """

    def lanes(self, pattern: str = "*", limit: int = 1000) -> LaneReport:
        """Return the lanes that are not idle and whose key matches a glob, at most `limit`, and the totals of all."""

    def waiting(self, key: str, count: int, most: int, *, newest: bool) -> list[tuple[str, str, float, str]]:
        """Return (run, id, start in seconds since 1970, Box wire) of runs that wait in a lane, oldest first.

        At most `count`, from the newest back, or from the oldest on; wire is "" where their Boxes, counted that way,
        would be more than `most` bytes.
        """

    def limit(self, name: str, rate: Rate) -> Verdict:
        """Count one more under `name` if `rate` allows it now."""

    def effect(self, run_id: str, name: str) -> EffectRecord | None:
        """Return the ledger's record of an effect."""

    def begin_effect(self, claim: Claim, use: EffectUse) -> EffectRecord | None:
        """Return the recorded result, or write the intent and return None: the call may be made now.

        An intent that another try left is unknown, which is journaled; with the policy `hold`, of now or then, the
        record is returned in that state. Raises `StaleClaimError`, and writes nothing, when the claim is lost.
        """

    def end_effect(self, claim: Claim, use: EffectUse, record: EffectRecord, entry: JournalEntry) -> bool:
        """Write what a begun call came to, with its journal entry; re-sending it writes nothing more.

        A lost claim's news is written, too, while no other try has begun the call; else it is discarded, counted in
        "stale effects", and the answer is False.
        """

    def settle_effect(self, run_id: str, name: str, record: EffectRecord, entry: JournalEntry) -> None:
        """Write by hand what became of an effect that is unknown; raises `EffectError` when it isn't."""

    def effects(self, run_id: str = "", limit: int = 100) -> list[tuple[str, str, EffectRecord]]:
        """Return (run, "step:key", record) of a run's effects, else of those `hold` effects that have no result.

        An intent whose try is gone is shown as unknown.
        """

    def read(self, key: str, last: int | None = None) -> tuple[str, Any]:
        """Return (type, value) of a store key; last: of a list only so many of its newest items, from 0 up.

        One of ("none", None), ("value", JSON text), ("list", [JSON text, …]) and ("hash", {field: JSON text}).
        """

    def write(self, ops: Sequence[StoreOp]) -> None:
        """Apply store writes at once, all or none."""

    def tail(self, after: str, timeout: float, limit: int) -> list[JournalEntry]:
        """Return entries after a cursor ("0" from the start, "$" only new ones), waiting up to `timeout` seconds."""

    def cursor(self) -> str:
        """Return the journal's newest cursor, "0" while it is empty."""

    def history(self) -> History:
        """Return the recorded runs, those of the journal and those of its archive alike."""

    def publish(self, table: RouteTable, *, deployment: int | None = None) -> RouteTable:
        """Publish a route table; returns it with its number (the old one when nothing changed).

        deployment: the one its plugins were loaded for; raises `StaleRoutesError` when another one is active by now.
        """

    def deployments(self) -> Deployments:
        """Return what keeps the deployments of the bot."""

    def routes(self) -> RouteTable | None:
        """Return the published route table, or None before the first worker has loaded."""

    def dead(self, wanted: DeadFilter = ANY) -> list[DeadLetter]:
        """Return the dead letters that are wanted, newest first."""

    def dead_retry(self, letter: DeadLetter, requests: Sequence[RunRequest], entry: JournalEntry) -> bool:
        """Start these in a letter's place; False, and nothing is started, when the letter is gone."""

    def dead_drop(self, letter: DeadLetter, entry: JournalEntry) -> bool:
        """Remove a letter; False when it is gone."""

    def backlog(self, prefix: str = "") -> list[QueueInfo]:
        """Return what waits in the queues whose name begins with `prefix`."""

    def embed(self, bot: Runtime) -> Embedded:
        """Return a consumer that executes steps with `bot` in threads of this process; it begins without queues."""

    def lease(self, name: str, holder: str, seconds: float) -> int:
        """Take or keep a lease for `seconds`, or give it back with 0; returns its fencing number, 0 without it.

        The number grows with every new holder. holder: a name nobody else has. Gives up within about two seconds.
        """

    def alarm(self, name: str, what: str, fix: str) -> None:
        """Tell the operator (`lumia status`, `lumia doctor`) until it is told that it is over; `what` "" ends it."""

    def health(self) -> Health:
        """Tell whether the transport works; never raises."""

    def close(self) -> None:
        """Release connections and threads."""
