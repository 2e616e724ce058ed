"""The in-memory transport: the same promises as the Celery one, within one process and for its lifetime.

It serves `lumia.testing`, offline replay and plugin development, and runs the suite in `tests/conformance`.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lumia.boxwire import burst
from lumia.dead import MAX_LETTERS, DeadFilter, DeadLetter
from lumia.errors import LumiaError, RunTimeoutError, StaleClaimError, StaleRoutesError, UnknownRunError
from lumia.flow import NEVER
from lumia.inmemory_deployments import MemoryDeployments
from lumia.inmemory_effects import Ledger, LedgerPort
from lumia.inmemory_journal import Journal, JournalPort
from lumia.inmemory_lanes import LanePort, Lanes
from lumia.inmemory_queues import QueuePort
from lumia.inmemory_ready import Ready
from lumia.inmemory_run import Run
from lumia.inmemory_store import StorePort, Values
from lumia.journal import JournalEntry, clean
from lumia.marks import DEFAULT_QUEUE
from lumia.ports import (
    ANY,
    Claim,
    Commit,
    Health,
    Inbox,
    Limits,
    RunRecord,
    RunRequest,
    Started,
)
from lumia.routes import RouteTable
from lumia.system import Clock, RealClock

if TYPE_CHECKING:
    from lumia.runtime import Runtime


MAX_FINISHED = 20_000
"""Finished runs that are kept at most, however short the time they are to be kept."""


class InMemoryTransport(LedgerPort, LanePort, JournalPort, QueuePort, StorePort):
    """Implements `lumia.ports.Transport`. Safe for threads; nothing outlives the object."""

    inbox: Inbox | None = None

    def __init__(self, limits: Limits | None = None, clock: Clock | None = None) -> None:
        QueuePort.__init__(self)
        self.limits = limits or Limits()
        self.clock = clock or RealClock()
        self._changed = threading.Condition(threading.RLock())
        self._runs: dict[str, Run] = {}
        self._finished: deque[str] = deque()
        self._joined: dict[str, str] = {}
        self._ready = Ready()
        self._delayed: list[tuple[float, int, str]] = []
        self._lanes = Lanes(self, self._runs)
        self._dedup: dict[str, tuple[str, float]] = {}
        self._journal = Journal(self.clock, self.number, lambda: self.limits.journal_bytes)
        self._effects = Ledger(self._is_live, self._journal.add)
        self._values = Values(self.clock)
        self._dead: deque[DeadLetter] = deque(maxlen=MAX_LETTERS)
        self._table: RouteTable | None = None
        self._counter = itertools.count(1)
        self._threads: list[threading.Thread] = []
        self._closing = False
        self._deployments = MemoryDeployments(self.clock, self._changed, self._runs, self.publish)

    # --- starting

    def start(self, requests: Sequence[RunRequest], *, routes: int | None = None) -> list[Started]:
        """Accept the requests in one atomic step."""
        with self._changed:
            if routes is not None and self._table is not None and routes != self._table.number:
                raise StaleRoutesError(f"plans of table {routes}, published is {self._table.number}")
            first = requests[0]
            known = self._known(first)
            if known is not None:
                joined = first.run_id in self._joined
                started = Started(known, known != first.run_id and not joined, joined)
                return [started, *(Started(r.run_id) for r in requests[1:])]
            self._refuse(requests)
            answer = [self._begin(request) for request in requests]
            self._changed.notify_all()
            return answer

    def start_each(
        self, starts: Sequence[Sequence[RunRequest]], *, routes: int | None = None
    ) -> list[list[Started] | Exception]:
        """Accept several starts, each in an atomic step of its own."""
        with self._changed:
            return [self._start_one(requests, routes) for requests in starts]

    def _start_one(self, requests: Sequence[RunRequest], routes: int | None) -> list[Started] | Exception:
        try:
            return self.start(requests, routes=routes)
        except LumiaError as error:
            return error

    def _refuse(self, requests: Sequence[RunRequest]) -> None:
        if any(request.lane or request.rate for request in requests):
            self._move()  # so that nothing overtakes what is due
            self._lanes.refuse([request for request in requests if self._known(request) is None])

    def _known(self, request: RunRequest) -> str | None:
        """Return the run that serves a request already."""
        if request.run_id in self._runs:
            return request.run_id
        if request.run_id in self._joined:
            return self._joined[request.run_id]
        now = self.clock.monotonic()
        while self._dedup and next(iter(self._dedup.values()))[1] <= now:
            del self._dedup[next(iter(self._dedup))]
        run_id, until = self._dedup.get(request.dedup, (None, now))
        return run_id if until > now else None

    def _begin(self, request: RunRequest, cancelled: str = "") -> Started:
        host = self._lanes.join(request)
        run_id = host.request.run_id if host else request.run_id
        if request.dedup:
            self._dedup[request.dedup] = (run_id, self.clock.monotonic() + self.limits.dedup_window)
        if host is None:
            self._open(request, cancelled)
            return Started(run_id)
        self._joined[request.run_id] = run_id
        detail = {"by": request.run_id, "n": len(host.guests)} | ({"source": request.cause} if request.cause else {})
        self._note("join", host, detail=detail)
        return Started(run_id, joined=True)

    def _open(self, request: RunRequest, cancelled: str) -> None:
        run = Run(request, request.box, self.clock.now(), attempt=request.attempt, failures=request.failures,
                  returning=request.returning, deferred=request.deferred)  # fmt: skip
        if request.lane is not None and request.lane.collect:
            run.box = run.began_with = burst(request.box)
        self._runs[request.run_id] = run
        parent = self._runs.get(request.parent)
        if parent is not None:
            parent.children.append(request.run_id)
            if request.attached:
                parent.pending += 1
        detail: dict[str, Any] = {"cause": request.cause} if request.cause else {}
        if request.delay > 0:
            detail["delay"] = request.delay
        if request.plan.queue != DEFAULT_QUEUE:
            detail["queue"] = request.plan.queue
        self._note("start", run, detail=detail)
        if not request.plan.steps:
            self._end(run, "done", "no handler")
        elif request.arc:
            run.state = "claimed"
        elif cancelled and request.attached:
            self._end(run, "cancelled", cancelled)
        else:
            self._admit(run)

    def _admit(self, run: Run) -> None:
        """Let a fresh run wait for what it asked for, and then for its lane."""
        request = run.request
        wait, dropped = self._lanes.reserve(request)
        if dropped:
            self._end(run, "stopped", dropped)
            return
        delay = max(wait, request.delay)
        if request.lane is not None and request.lane.collect:
            delay = max(delay, self._lanes.collect(run))
            run.slot = self.clock.monotonic() + wait
        if delay > 0:
            self._postpone(run, delay)
        else:
            self._lanes.enter(run)

    def push(self, run: Run) -> None:
        """Make the run's next step ready to be claimed (for `Lanes`)."""
        run.state = "queued"
        run.pushed = self.clock.monotonic()
        self._ready.push(run.queue, run.request.priority, run.request.run_id, run.pushed)

    def drop(self, run: Run, outcome: str, reason: str) -> None:
        """End a run that nobody executes (for `Lanes`)."""
        self._end(run, outcome, reason)

    def _postpone(self, run: Run, delay: float) -> None:
        run.state, run.due, run.place = "delayed", self.clock.monotonic() + delay, self.number()
        heapq.heappush(self._delayed, (run.due, run.place, run.request.run_id))

    def number(self) -> int:
        """Return a number larger than any before (for `Lanes`)."""
        return next(self._counter)

    # --- executing

    def take(self, queue: str | None = None) -> Claim | None:
        """Claim the next waiting step of `queue` (any queue when None), or return None."""
        with self._changed:
            self._move()
            while run_id := self._ready.pop(queue, self.clock.monotonic(), self.limits.ageing, self.parked):
                run = self._runs.get(run_id)
                if run is not None and run.state == "queued":
                    if not self._lanes.drop_stale(run):
                        return self._claim(run)
                    self._changed.notify_all()
            return None

    def next_due(self) -> float | None:
        """Return in how many seconds the next delayed run is due, None when there is none."""
        with self._changed:
            return max(0.0, self._delayed[0][0] - self.clock.monotonic()) if self._delayed else None

    def _move(self) -> None:
        while self._delayed and self._delayed[0][0] <= self.clock.monotonic():
            due, place, run_id = heapq.heappop(self._delayed)
            run = self._runs.get(run_id)
            if run is None or run.state != "delayed":
                continue
            if (run.due, run.place) > (due, place):  # its burst has grown since
                heapq.heappush(self._delayed, (run.due, run.place, run_id))
            else:
                self._lanes.enter(run)

    def _claim(self, run: Run) -> Claim:
        run.state = "claimed"
        run.attempt += 1
        run.token = next(self._counter)
        return run.claim()

    def begin_inline(self, run_id: str) -> Claim:
        """Return the claim of an Arc run that this process has started."""
        with self._changed:
            return self._claim(self._found(run_id))

    def commit(self, claim: Claim, commit: Commit) -> Claim | None:
        """End a step; the same commit again gives the first answer again."""
        with self._changed:
            run = self._found(claim.run_id)
            mark = (claim.step, claim.token)
            if run.last is not None and run.last[0] == mark:
                return run.last[1]
            if run.state != "claimed" or run.token != claim.token or run.step != claim.step:
                raise StaleClaimError(f"run {claim.run_id}, step {claim.step}: taken over by another worker")
            self._values.check(commit.store)
            self._refuse(commit.children)
            answer = self._apply(run, claim, commit)
            run.last = (mark, answer)
            self._changed.notify_all()
            return answer

    def _apply(self, run: Run, claim: Claim, commit: Commit) -> Claim | None:
        if commit.box is not None:
            run.box = commit.box
        if commit.action != "handback":
            run.steps.append(commit.record)
            self._journal.add(run.opened(commit.entry))
        for op in commit.store:
            self._values.write(op)
        if commit.dead is not None:
            self._dead.append(commit.dead)
            self._journal.add(_dead_entry(claim, commit.dead))
        cancelled = run.cancelled and (commit.action != "end" or commit.dead is None)
        for child in commit.children:
            if not (cancelled and child.retry_of) and self._known(child) is None:
                self._begin(child, run.cancelled)
        return self._follow(run, commit)

    def _follow(self, run: Run, commit: Commit) -> Claim | None:
        queue = run.queue
        if run.cancelled and (commit.action != "end" or commit.dead is None):
            self._end(run, "cancelled", run.cancelled)
        elif commit.action == "next":
            run.step, run.attempt, run.handbacks, run.losses, run.failures = commit.index, 0, 0, 0, ()
            run.deferred = NEVER
            if commit.fuse:
                run.attempt = 1
                return run.claim()
            if commit.delay:
                self._postpone(run, commit.delay)
            else:
                self.push(run)
        elif commit.action in ("retry", "handback"):
            run.failures = commit.failures or run.failures
            return self._again(run, commit)
        else:
            self._end(run, commit.outcome, commit.reason)
        return self.take(queue) if commit.batch and commit.action == "end" else None

    def _again(self, run: Run, commit: Commit) -> Claim | None:
        if commit.action == "handback":
            run.attempt -= 1
            run.handbacks += not commit.free
        run.deferred = commit.deferred or run.deferred
        if run.request.arc:
            return self._claim(run)
        if commit.release:
            self._lanes.let_go(run)
        self._postpone(run, commit.delay)
        return None

    def _end(self, run: Run, outcome: str, reason: str) -> None:
        self._lanes.forget(run)
        run.state, run.outcome, run.reason, run.ended = "ended", outcome, reason, self.clock.now()
        self._note("end", run, outcome=outcome, reason=reason)
        self._lanes.step_aside(run)
        self._leave(run)

    def _leave(self, run: Run | None) -> None:
        while run is not None:
            run.pending -= 1
            if run.pending > 0:
                return
            run.state = "finished"
            run.ended = max(run.ended, self.clock.now())
            self._lanes.release(run)
            self._forget(run.request.run_id)
            run = self._runs.get(run.request.parent) if run.request.attached else None

    def _forget(self, run_id: str) -> None:
        self._finished.append(run_id)
        oldest = self.clock.now() - self.limits.keep_runs
        while len(self._finished) > MAX_FINISHED or self._runs[self._finished[0]].ended < oldest:
            gone = self._finished.popleft()
            self._effects.forget(gone)
            for guest in self._runs[gone].guests:
                self._joined.pop(guest, None)
            del self._runs[gone]

    # --- asking

    def run(self, run_id: str) -> RunRecord | None:
        """Return a run's record, or None when it is unknown or no longer kept."""
        with self._changed:
            run = self._runs.get(run_id)
            return None if run is None else run.record()

    def wait(self, run_id: str, timeout: float) -> RunRecord:
        """Wait until a run's tree has finished."""
        with self._changed:
            run = self._found(run_id)
            if not self._changed.wait_for(lambda: run.state == "finished", timeout):
                raise RunTimeoutError(
                    f"run {run_id} has not ended within {timeout:g} s; it goes on: wait longer, or see "
                    f"`lumia trace {run_id}`"
                )
            return run.record()

    def cancel(self, run_id: str, reason: str) -> bool:
        """End a run and its attached children as cancelled, at their next commit or at once."""
        with self._changed:
            self._found(run_id)
            tree = list(self._lanes.left_of(run_id))
            for run in tree:
                self._cancel(run, clean(reason) or "cancelled")
            self._changed.notify_all()
            return bool(tree)

    def _cancel(self, run: Run, reason: str) -> None:
        if run.state == "claimed":
            run.cancelled = reason
        else:
            self._end(run, "cancelled", reason)

    def _is_live(self, run_id: str, step: int, token: int) -> bool:
        run = self._runs.get(run_id)
        return run is not None and (run.state, run.step, run.token) == ("claimed", step, token)

    # --- journal, routes, dead letters

    def _note(
        self, kind: str, run: Run, *, outcome: str = "", reason: str = "", detail: dict[str, Any] | None = None
    ) -> None:
        request = run.request
        named = (kind, request.run_id, request.root_id, request.id, request.key)
        flow = request.flow if kind == "start" else ""
        entry = JournalEntry(*named, outcome=outcome, reason=reason, detail=detail or {}, flow=flow)
        self._journal.add(entry if kind in ("start", "join") else run.opened(entry))

    def publish(self, table: RouteTable, *, deployment: int | None = None) -> RouteTable:
        """Publish a route table."""
        with self._changed:
            if deployment not in (None, self._deployments.active):
                raise StaleRoutesError(
                    f"these are the routes of deployment {deployment}, and another one is active by now"
                )
            if self._table is None or self._table.dump() != table.dump():
                self._table = replace(table, number=next(self._counter))
            return self._table

    def routes(self) -> RouteTable | None:
        """Return the published route table."""
        return self._table

    def deployments(self) -> MemoryDeployments:
        """Return what keeps the deployments of the bot."""
        return self._deployments

    def dead(self, wanted: DeadFilter = ANY) -> list[DeadLetter]:
        """Return the dead letters that are wanted, newest first."""
        with self._changed:
            return list(itertools.islice(filter(wanted.matches, reversed(self._dead)), wanted.limit))

    def dead_retry(self, letter: DeadLetter, requests: Sequence[RunRequest], entry: JournalEntry) -> bool:
        """Start these in a letter's place; False, and nothing is started, when the letter is gone."""
        with self._changed:
            there = self.dead_drop(letter, entry)
            for request in requests if there else ():
                self._begin(request)
            return there

    def dead_drop(self, letter: DeadLetter, entry: JournalEntry) -> bool:
        """Remove a letter; False when it is gone."""
        with self._changed:
            there = letter in self._dead
            if there:
                self._dead.remove(letter)
                self._journal.add(entry)
                self._changed.notify_all()
            return there

    def health(self) -> Health:
        """Tell whether the transport works."""
        counters = {"stale effects": self._effects.stale} if self._effects.stale else {}
        return Health(not self._closing, workers=tuple(thread.name for thread in self._threads), counters=counters)

    # --- driving

    def drain(self, bot: Runtime, *, limit: int = 100_000) -> int:
        """Execute everything that is ready, in this thread; returns the number of claims taken from the queues."""
        with bot.activated():
            for count in range(limit):
                claim = self.take()
                if claim is None:
                    return count
                bot.executor.process(claim)
        raise RunTimeoutError(f"still not idle after {limit} steps: do handlers start each other for ever?")

    def serve(self, bot: Runtime, threads: int = 2) -> None:
        """Execute runs in background threads until `close`."""
        for number in range(threads):
            thread = threading.Thread(target=self._serve, args=(bot,), name=f"lumia-memory-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, bot: Runtime) -> None:
        with bot.activated():
            while not self._closing:
                try:
                    bot.executor.process(self._awaited())
                except Exception:
                    bot.log.exception("a step could not be committed; the other runs go on")

    def _awaited(self) -> Claim | None:
        with self._changed:
            claim = self.take()
            if claim is None and not self._closing:
                self._changed.wait(self._pause())
            return claim

    def _pause(self) -> float:
        due = self.next_due()
        return 0.5 if due is None else max(0.001, min(0.5, due))

    def close(self) -> None:
        """Stop the background threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=5)

    def _found(self, run_id: str) -> Run:
        run = self._runs.get(run_id)
        if run is None:
            raise UnknownRunError(f"run {run_id} is unknown here, or ended longer ago than runs are kept")
        return run


def _dead_entry(claim: Claim, dead: DeadLetter) -> JournalEntry:
    return JournalEntry(
        "dead", claim.run_id, claim.root_id, claim.id, claim.key, claim.step, dead.handler, reason=dead.error,
        attempt=dead.attempts,
    )  # fmt: skip
