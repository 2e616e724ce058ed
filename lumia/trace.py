"""A trace: what became of a run and everything it caused, as a tree with times relative to its start.

`build` makes it from journal entries alone; what is known of runs that have not ended (`Live`) is added when it is at
hand. `lumia.verdict` says in one line why it came to what it came to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lumia.dead import AS_RUN, RETRIED, RETRY, is_letter, is_settled
from lumia.history import NO_USAGE, RunSummary, Usage, position, root_of, tallied, usage
from lumia.ids import child_id
from lumia.journal import CANCEL, KEPT, LOST, NEXT_DELAY, JournalEntry

SHORTEST_MS = 0.5
"""Milliseconds; a shorter pause is no wait: it is the time of a commit."""
MAX_DEPTH = 100
"""Levels of a tree; what lies deeper is shown at the last one."""
ANSWER = "msg.send"
"""Events that send a message to a chat."""


@dataclass(frozen=True)
class Live:
    """What is known of a run that has not ended, beside the journal.

    state: waiting, queued, claimed, delayed or ended (its children still run). behind: the run that holds its lane.
    handler: the step it is at. attempt: the try.
    """

    state: str
    behind: str = ""
    handler: str = ""
    attempt: int = 0


@dataclass(frozen=True)
class Wait:
    """Time in which nothing was done. at, ms: milliseconds.

    kind: inbox, lane, queue, delay, backoff, handover or unknown. at: of the inbox it is before the run's start, so
    below 0 at the root.
    """

    kind: str
    at: float
    ms: float


@dataclass(frozen=True)
class Effect:
    """A recorded call. at: when it began; at, ms: milliseconds. args: a digest of its arguments."""

    key: str
    kind: str
    outcome: str
    reason: str
    at: float
    ms: float
    attempt: int = 1
    model: str = ""
    args: str = ""
    usage: Usage = NO_USAGE


@dataclass(frozen=True)
class Step:
    """One try of a handler. at: when it began; at, ms: milliseconds. waits: before it. error: the traceback's end.

    exact: False for a lost try, of which only is known that it began somewhere between `at` and its end.
    """

    index: int
    handler: str
    attempt: int
    outcome: str
    reason: str
    at: float
    ms: float
    worker: str = ""
    waits: tuple[Wait, ...] = ()
    effects: tuple[Effect, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    exact: bool = True


@dataclass(frozen=True)
class Act:
    """What an operator did about a run. kind: cancel, or what became of its dead letter: retried, dropped.

    at: milliseconds. step: index of the dead letter's step. run: the run that goes on from a dead letter.
    """

    kind: str
    at: float
    reason: str = ""
    step: int | None = None
    handler: str = ""
    run: str = ""


@dataclass(frozen=True)
class Run:
    """One run. relation: root, child, detached or retry. at, ended: milliseconds, ended is None while it runs.

    after: index of the parent's step that started it. state: finished, or where it is: waiting, queued, claimed,
    delayed, or unknown when nobody can tell. waited: how long it has been there, in milliseconds. dead: the reason of
    its dead letter. marked: it is the one that was asked for. box: wire text of the Box it began with. acts: what
    operators did about it, in order. retry_of: the run whose dead letter it goes on from. queue: where it began, ""
    for the default queue.
    """

    run_id: str
    relation: str
    flow: str
    id: str
    key: str
    cause: str
    outcome: str
    reason: str
    at: float
    ended: float | None
    state: str = "finished"
    waited: float = 0.0
    live: Live | None = None
    after: int | None = None
    dead: str = ""
    marked: bool = False
    box: str = ""
    usage: Usage = NO_USAGE
    steps: tuple[Step, ...] = ()
    children: tuple[Run, ...] = ()
    acts: tuple[Act, ...] = ()
    retry_of: str = ""
    queue: str = ""

    def walk(self) -> Iterator[Run]:
        """Yield this run and everything below, parents before children."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def attached(self) -> Iterator[Run]:
        """Yield this run and what belongs to its tree: detached runs are trees of their own."""
        yield self
        for child in self.children:
            if child.relation != "detached":
                yield from child.attached


@dataclass(frozen=True)
class Trace:
    """A run tree. started: seconds since 1970. ms: to its last end, or to now. usage: of the whole tree."""

    run: Run
    started: float
    ms: float
    ended: bool
    usage: Usage


def build(
    entries: Sequence[JournalEntry],
    *,
    mark: str = "",
    live: Mapping[str, Live] | None = None,
    detached: Sequence[RunSummary] = (),
    now: float = 0.0,
) -> Trace:
    """Return the trace of one tree's entries.

    mark: the run that was asked for. live: what is known of runs that have not ended. detached: runs of other trees
    that may have been started by this one. now: seconds since 1970, for what still goes on. Raises `ValueError` for no
    entries.
    """
    told = [entry for entry in sorted(entries, key=position) if entry.run_id]
    return _Builder(told, mark, live or {}, detached, now).trace()


class _Builder:
    def __init__(
        self,
        entries: list[JournalEntry],
        mark: str,
        live: Mapping[str, Live],
        detached: Sequence[RunSummary],
        now: float,
    ) -> None:
        if not entries:
            raise ValueError("a trace needs at least one journal entry")
        self._of: dict[str, list[JournalEntry]] = {}
        for entry in entries:
            self._of.setdefault(entry.run_id, []).append(entry)
        self._tallies = tallied(entries)
        self._told = {run_id: tally.summary() for run_id, tally in self._tallies.items()}
        self._root = root_of(entries[0])
        self._below = self._families()
        self._zero = self._told[self._root].started if self._root in self._told else entries[0].time
        self._mark, self._live, self._detached = mark, live, detached
        self._now = max(now, entries[-1].time)

    def _families(self) -> dict[str, list[str]]:
        """Return the children of each run; whose parent is unknown belongs to the root, which is at the top."""
        below: dict[str, list[str]] = {}
        depth: dict[str, int] = {self._root: 0}
        above: dict[str, str] = {self._root: self._root}
        for run_id in self._of:
            if run_id != self._root:
                parent = self._told[run_id].cause.rpartition("/")[0]
                parent = parent if parent in depth else self._root
                parent = parent if depth[parent] < MAX_DEPTH else above[parent]
                depth[run_id], above[run_id] = depth[parent] + 1, parent
                below.setdefault(parent, []).append(run_id)
        return below

    def trace(self) -> Trace:
        root = self._run(self._root) if self._root in self._of else self._lost()
        tree = list(root.attached)
        ended = all(run.ended is not None for run in tree)
        last = max(run.ended or 0.0 for run in tree) if ended else self._ms(self._now)
        used = sum((tally.usage for tally in self._tallies.values()), Usage())
        return Trace(root, self._zero, round(last, 3), ended, used)

    def _ms(self, moment: float) -> float:
        return round(max(0.0, moment - self._zero) * 1000, 3)

    def _lost(self) -> Run:
        """Return a stand-in for a root of which the journal holds nothing any more."""
        reason = "its own entries are no longer in the journal"
        below = tuple(self._children(self._root))
        return Run(self._root, "root", "", "", "", "", "", reason, 0.0, None, "unknown", children=below)

    def _run(self, run_id: str) -> Run:
        told, tally, entries = self._told[run_id], self._tallies[run_id], self._of[run_id]
        relation = self._relation(told)
        ended = self._ms(told.ended) if told.ended else None
        dead = next((entry.reason for entry in entries if is_letter(entry)), "")
        run = Run(
            run_id, relation, told.flow, told.id, told.key, told.cause, told.outcome, told.reason,
            self._ms(told.started), ended, after=_step_of(told.cause), dead=dead, marked=run_id == self._mark,
            box=tally.box, usage=tally.usage, steps=tuple(self._steps(told, relation, entries)),
            children=tuple(self._children(run_id)), acts=tuple(self._acts(entries)), retry_of=retried(told.cause),
            queue=next((str(entry.detail.get("queue", "")) for entry in entries if entry.kind == "start"), ""),
        )  # fmt: skip
        own = [entry.time for entry in entries if entry.kind != CANCEL]
        return run if told.ended else self._unfinished(run, (own or [entries[-1].time])[-1])

    def _acts(self, entries: list[JournalEntry]) -> Iterator[Act]:
        for entry in entries:
            if entry.kind == CANCEL:
                yield Act("cancel", self._ms(entry.time), entry.reason)
            elif is_settled(entry):
                into = entry.reason.removeprefix(AS_RUN) if entry.outcome == RETRIED else ""
                reason = "" if into else entry.reason
                yield Act(entry.outcome, self._ms(entry.time), reason, entry.step, entry.handler, into)

    def _unfinished(self, run: Run, since: float) -> Run:
        live = self._live.get(run.run_id)
        waited = round(self._ms(self._now) - self._ms(since), 3)
        return replace(run, state=live.state if live else "unknown", waited=waited, live=live)

    def _relation(self, run: RunSummary) -> str:
        parent, step = run.cause.rpartition("/")[0], _step_of(run.cause)
        if run.run_id == self._root:
            return "root"
        return "retry" if step is not None and run.run_id == child_id(parent, step, "retry") else "child"

    def _children(self, run_id: str) -> Iterator[Run]:
        yield from map(self._run, self._below.get(run_id, ()))
        for other in self._detached:
            if other.run_id not in self._of and other.cause.rpartition("/")[0] == run_id:
                yield self._elsewhere(other)

    def _elsewhere(self, run: RunSummary) -> Run:
        """Return a detached run: a tree of its own, told in one line."""
        ended = self._ms(run.ended) if run.ended else None
        return Run(
            run.run_id, "detached", run.flow, run.id, run.key, run.cause, run.outcome, run.reason,
            self._ms(run.started), ended, "finished" if run.ended else "unknown", after=_step_of(run.cause),
            usage=run.usage,
        )  # fmt: skip

    def _steps(self, run: RunSummary, relation: str, entries: list[JournalEntry]) -> Iterator[Step]:
        effects: list[JournalEntry] = []
        previous: JournalEntry | None = None
        for entry in entries:
            if entry.kind == "effect":
                effects.append(entry)
            if entry.kind == "step":
                mine = tuple(self._effect(one) for one in effects if one.step == entry.step)
                if is_unclocked(entry):
                    since = self._since(run, previous)
                    took = round(max(0.0, self._ms(entry.time) - since), 3)
                    yield replace(self._step(entry, (), mine), at=since, ms=took, exact=False)
                else:
                    yield self._step(entry, self._waits(run, relation, previous, entry), mine)
                effects, previous = [one for one in effects if one.step != entry.step], entry
        for entry in effects[:1]:  # of a try that is being made, or was lost
            lost = replace(entry, outcome="", reason="not committed", detail={}, ms=0.0)
            yield self._step(lost, (), tuple(self._effect(one) for one in effects))

    def _step(self, entry: JournalEntry, waits: tuple[Wait, ...], effects: tuple[Effect, ...]) -> Step:
        hidden = {"box", "cause", "trace", "queued", "reads", "redacted"}
        notes = {name: value for name, value in entry.detail.items() if name not in hidden}
        return Step(
            entry.step or 0, entry.handler, entry.attempt, entry.outcome, entry.reason, self._began(entry), entry.ms,
            entry.worker, waits, effects, notes, str(entry.detail.get("trace", "")),
        )  # fmt: skip

    def _since(self, run: RunSummary, previous: JournalEntry | None) -> float:
        """Return the moment from which on a try could begin."""
        if previous is not None:
            return self._ms(previous.time) + _put_off(previous)
        return round(self._ms(run.started) + self._told_at_start(run.run_id, "delay"), 3)

    def _began(self, entry: JournalEntry) -> float:
        return round(max(0.0, self._ms(entry.time) - entry.ms), 3)

    def _effect(self, entry: JournalEntry) -> Effect:
        text = {name: str(entry.detail.get(name, "")) for name in ("effect", "kind", "model", "args")}
        return Effect(
            text["effect"], text["kind"], entry.outcome, entry.reason, self._began(entry), entry.ms, entry.attempt,
            text["model"], text["args"], usage(entry) or Usage(),
        )  # fmt: skip

    def _waits(
        self, run: RunSummary, relation: str, previous: JournalEntry | None, entry: JournalEntry
    ) -> tuple[Wait, ...]:
        """Return what a step waited for since the step before it, or since the run was accepted."""
        since = self._ms(previous.time if previous else run.started)
        gap = max(0.0, self._began(entry) - since)
        told = entry.detail.get("queued")
        queued = min(gap, float(told)) if isinstance(told, (int, float)) else 0.0
        rest = gap - queued
        kinds = [("queue", queued)]
        if previous is not None:
            backoff = previous.outcome == "retry"
            delay = min(rest, _put_off(previous))
            onward = [("delay", delay), *kinds, ("handover", rest - delay)]
            kinds = [("backoff", rest), *kinds] if backoff else onward
        elif told is None:
            kinds = [("unknown", rest)]
        else:
            delay = min(rest, self._told_at_start(run.run_id, "delay"))
            before = ("backoff" if relation == "retry" else "delay", delay)
            after = ("lane", rest - delay) if run.key else ("handover", rest - delay)
            kinds = [before, after, *kinds] if run.key else [before, *kinds, after]
        kept = self._told_at_start(run.run_id, KEPT) if previous is None else 0.0
        return (*_placed(since - kept, [("inbox", kept)]), *_placed(since, kinds))

    def _told_at_start(self, run_id: str, name: str) -> float:
        """Return the milliseconds that a run's first entry tells of, from its seconds."""
        told = next((entry.detail.get(name) for entry in self._of[run_id] if entry.kind == "start"), None)
        return float(told) * 1000 if isinstance(told, (int, float)) else 0.0


def _put_off(entry: JournalEntry) -> float:
    """Return the milliseconds by which a step put its successor off."""
    told = entry.detail.get(NEXT_DELAY)
    return float(told) * 1000 if isinstance(told, (int, float)) else 0.0


def _placed(since: float, kinds: Sequence[tuple[str, float]]) -> Iterator[Wait]:
    """Yield the waits one after the other; one too short to be a wait only takes up its time."""
    for kind, ms in kinds:
        if ms >= SHORTEST_MS:
            yield Wait(kind, round(since, 3), round(ms, 3))
        since += ms


def is_unclocked(entry: JournalEntry) -> bool:
    """Tell whether a step's entry is of a lost try: who tells of it knows when it was missed, not when it began."""
    return entry.outcome == LOST and not entry.ms


def retried(cause: str) -> str:
    """Return the run whose dead letter was retried, if that is a run's cause, else ""."""
    return cause.removeprefix(RETRY) if cause.startswith(RETRY) else ""


def _step_of(cause: str) -> int | None:
    step = cause.rpartition("/")[2]
    return int(step) if step.isdecimal() else None
