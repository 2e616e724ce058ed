"""History: recorded runs, looked up by what is known of them, wherever the journal's entries are kept.

A `History` finds runs and returns the entries of a run tree. Here is the one over entries in memory, which serves the
in-memory transport and exported files, and the pure functions that every other one is built from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, Protocol

from lumia.ids import id_time
from lumia.journal import JournalEntry
from lumia.routes import pattern

RUN_KINDS = frozenset({"start", "step", "end", "effect", "dead"})
"""Kinds of entries that belong to a run; the journal has others, such as gaps and alarms."""
FREE = frozenset({"replayed", "held"})
"""Outcomes of an effect that was not made in this try, so that it cost nothing."""


@dataclass(frozen=True)
class RunFilter:
    """What is asked for; a run has to match all of it.

    runs: ids, or beginnings of ids. id: the event or pipeline id, `*` stands for any text. group: a lane key, or its
    chat part (what follows the last `:`, or of that what follows the first `-`). outcome: of the run; `running` for one
    that has not ended, `dead` for one that left a dead letter. since, until: bounds of its start in seconds since 1970,
    0 for none. message: the message id in the Box it began with. trees: only runs at the root of a tree, each summed
    up with all that belongs to it. limit: how many at most, the newest ones.
    """

    runs: tuple[str, ...] = ()
    id: str = "*"
    group: str = ""
    outcome: str = ""
    since: float = 0.0
    until: float = 0.0
    limit: int = 50
    message: str = ""
    trees: bool = False


@dataclass(frozen=True)
class RunSummary:
    """One run in a line.

    started, ended: seconds since 1970, ended is 0 while it runs. steps: handlers that were executed; attempts: tries of
    them that were committed. cost: US dollars. dead: it left a dead letter.
    """

    run_id: str
    root_id: str = ""
    flow: str = ""
    id: str = ""
    key: str = ""
    cause: str = ""
    outcome: str = ""
    reason: str = ""
    started: float = 0.0
    ended: float = 0.0
    steps: int = 0
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    dead: bool = False

    @property
    def ms(self) -> float:
        """Return the milliseconds from start to end, 0 while it runs."""
        return max(0.0, round((self.ended - self.started) * 1000, 3)) if self.ended else 0.0

    @property
    def usage(self) -> Usage:
        """Return what its model calls used."""
        return Usage(self.tokens_in, self.tokens_out, self.cost)


class History(Protocol):
    """Recorded runs."""

    def find(self, wanted: RunFilter) -> list[RunSummary]:
        """Return the runs that match, the newest first."""

    def entries(self, root_id: str, *, late: bool = False) -> list[JournalEntry]:
        """Return every entry of the tree whose root is `root_id`, in the journal's order; empty when unknown.

        late: also what was told of it any time after its end, such as the retry of its dead letter; this may mean to
        read the whole journal since.
        """


class MemoryHistory:
    """The history of entries that are at hand, in any order."""

    def __init__(self, entries: Iterable[JournalEntry]) -> None:
        self._entries = sorted(entries, key=position)

    def find(self, wanted: RunFilter) -> list[RunSummary]:
        """Return the runs that match, the newest first."""
        return select(self._entries, wanted)

    def entries(self, root_id: str, *, late: bool = False) -> list[JournalEntry]:
        """Return every entry of the tree whose root is `root_id`, in the journal's order."""
        return [entry for entry in self._entries if root_of(entry) == root_id]


def position(entry: JournalEntry) -> tuple[tuple[int, ...], bool]:
    """Return where an entry stands, to sort by: the parts of its cursor, or its time when it has none.

    A run's last step and its end may share a cursor, as they share a row of the journal.
    """
    parts = entry.cursor.split("-")
    known = all(part.isdecimal() for part in parts)
    return tuple(map(int, parts)) if known else (int(entry.time * 1000),), entry.kind == "end"


def root_of(entry: JournalEntry) -> str:
    """Return the root of the tree an entry belongs to."""
    return entry.root_id or entry.run_id


def box_of(entry: JournalEntry) -> str:
    """Return the wire text of the Box a run began with, if this is the entry that carries it, else ""."""
    box = entry.detail.get("box")
    return box if isinstance(box, str) else ""


def is_whole(entries: Iterable[JournalEntry], root_id: str) -> bool:
    """Tell whether entries tell of a tree from its start to its last end."""
    found = tallied(entries)
    return root_id in found and found[root_id].begun and all(tally.ended for tally in found.values())


class MergedHistory:
    """The history of several places, such as a stream and its archives; an entry may be in more than one of them.

    parts: asked in this order; the first one holds everything from some moment on until now, so what it tells from the
    start on is the whole of it.
    """

    def __init__(self, parts: Sequence[History]) -> None:
        self.parts = list(parts)

    def find(self, wanted: RunFilter) -> list[RunSummary]:
        """Return the runs that match, the newest first."""
        found = {run.run_id: run for run in self.parts[0].find(wanted)}
        exact = {run_id for run_id, run in found.items() if run.flow}
        # What looks unfinished in an older part may have come to the wanted outcome since.
        questions = {wanted, replace(wanted, outcome="running")} if wanted.outcome else {wanted}
        for part in self.parts[1:]:
            for run in (run for question in questions for run in part.find(question)):
                if run.run_id not in exact:
                    found[run.run_id] = run
                    exact.update([run.run_id] if run.flow and run.ended and not wanted.trees else ())
        return self._first(found.values(), exact if len(self.parts) > 1 else set(found), wanted)

    def _first(self, found: Iterable[RunSummary], exact: set[str], wanted: RunFilter) -> list[RunSummary]:
        """Return the newest that match; of the others only those are read again that may stand before the last of them.

        What is read again began no later than it seemed to: a place may lack its beginning.
        """
        left = [(_age(run), run) for run in found]
        heapify(left)
        first = list[RunSummary]()
        while left and len(first) < wanted.limit:
            _, run = heappop(left)
            if run.run_id not in exact:
                exact.add(run.run_id)
                whole = self._read_again(run, wanted)
                heappush(left, (_age(whole), whole))
            elif matches(run, wanted):
                first.append(run)
        return first

    def entries(self, root_id: str, *, late: bool = False) -> list[JournalEntry]:
        """Return every entry of the tree whose root is `root_id`, in the journal's order."""
        found: dict[tuple[str, str, str], JournalEntry] = {}
        for part in self.parts:
            for entry in part.entries(root_id, late=late):
                found.setdefault((entry.cursor, entry.kind, entry.run_id), entry)
            if not late and is_whole(found.values(), root_id):
                break
        return sorted(found.values(), key=position)

    def _read_again(self, run: RunSummary, wanted: RunFilter) -> RunSummary:
        """Sum up a run, or tree, of which one place may have the beginning and another one the end."""
        runs = summaries(self.entries(run.root_id))
        return next((one for one in (trees(runs) if wanted.trees else runs) if one.run_id == run.run_id), run)


# --- what a run came to


@dataclass(frozen=True)
class Usage:
    """What model calls used. cost: US dollars."""

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of both."""
        return Usage(
            self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out, round(self.cost + other.cost, 9)
        )


NO_USAGE = Usage()


def usage(entry: JournalEntry) -> Usage | None:
    """Return what the calls of an entry used, None when it says nothing about that."""
    detail = entry.detail
    if not ("tokens_in" in detail or "tokens_out" in detail or "cost" in detail):
        return None
    if entry.outcome in FREE and entry.kind == "effect":
        return Usage()
    return Usage(int(_number(detail, "tokens_in")), int(_number(detail, "tokens_out")), _number(detail, "cost"))


def _number(detail: Mapping[str, Any], name: str) -> float:
    value = detail.get(name)
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 10**15
    return float(value) if usable and value is not None else 0.0


@dataclass
class Tally:
    """A run being summed up; its entries may come in any order. begun, ended: its `start` and `end` are among them.

    What a handler notes of its model calls counts only where the recorded calls of that step don't tell it themselves.
    """

    run_id: str
    box: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    steps: set[int] = field(default_factory=set)
    noted: dict[tuple[int | None, int], Usage] = field(default_factory=dict)
    called: dict[int | None, Usage] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Tell whether its start has been taken in."""
        return "started" in self.facts

    @property
    def ended(self) -> bool:
        """Tell whether its end has been taken in."""
        return "ended" in self.facts

    def add(self, entry: JournalEntry) -> None:
        """Take in one entry of the run."""
        self.box = self.box or box_of(entry)
        self.facts.update(root_id=root_of(entry), id=entry.id, key=entry.key)
        if "cause" in entry.detail:
            self.facts["cause"] = str(entry.detail["cause"])
        if entry.kind in RUN_KINDS:
            getattr(self, f"_{entry.kind}")(entry)

    def _start(self, entry: JournalEntry) -> None:
        self.facts.update(flow=entry.flow, started=entry.time)

    def _step(self, entry: JournalEntry) -> None:
        self.steps.add(entry.step or 0)
        self.facts.update(steps=len(self.steps), attempts=self.facts.get("attempts", 0) + 1)
        if (used := usage(entry)) is not None:
            self.noted[entry.step, entry.attempt] = used

    def _effect(self, entry: JournalEntry) -> None:
        if (used := usage(entry)) is not None:
            self.called[entry.step] = self.called.get(entry.step, Usage()) + used

    def _end(self, entry: JournalEntry) -> None:
        self.facts.update(outcome=entry.outcome, reason=entry.reason, ended=entry.time)

    def _dead(self, entry: JournalEntry) -> None:
        self.facts["dead"] = True

    @property
    def usage(self) -> Usage:
        """Return what the run's model calls used."""
        if not (self.noted or self.called):
            return NO_USAGE
        noted = [used for (step, _), used in self.noted.items() if step not in self.called]
        return sum([*noted, *self.called.values()], NO_USAGE)

    def summary(self) -> RunSummary:
        """Return the run so far; one whose start is missing began when its id was made."""
        used = self.usage
        begun: dict[str, Any] = {} if self.begun else {"started": id_time(self.run_id)}
        return RunSummary(self.run_id, tokens_in=used.tokens_in, tokens_out=used.tokens_out, cost=used.cost,
                          **begun, **self.facts)  # fmt: skip


def tallied(entries: Iterable[JournalEntry], before: Mapping[str, Tally] | None = None) -> dict[str, Tally]:
    """Return the sums of each run that `entries` tell of, by run id; before: sums of other entries, to be added to."""
    found = dict(before or {})
    for entry in entries:
        if entry.run_id:
            found.setdefault(entry.run_id, Tally(entry.run_id)).add(entry)
    return found


def summaries(entries: Iterable[JournalEntry]) -> list[RunSummary]:
    """Return a summary of each run that `entries` tell of, the newest first."""
    return newest_first(tally.summary() for tally in tallied(entries).values())


def newest_first(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return runs by their start, the newest first; a run stands after the children it started in the same moment.

    An id begins with the time at which it was made, which tells apart what reached the journal in one millisecond.
    """
    return sorted(runs, key=_age)


def _age(run: RunSummary) -> tuple[float, bool, tuple[int, ...]]:
    return -run.started, run.run_id == run.root_id, tuple(-ord(letter) for letter in run.run_id)


def tree(root: RunSummary, members: Iterable[RunSummary]) -> RunSummary:
    """Return `root` summed up with the runs of its tree; members: may name the root itself.

    It has ended when all of them have, and its outcome is the root's own.
    """
    below = [run for run in members if run.root_id == root.run_id and run.run_id != root.run_id]
    runs = [root, *below]
    used = sum((run.usage for run in runs), Usage())
    ended = max(run.ended for run in runs) if all(run.ended for run in runs) else 0.0
    return replace(
        root, ended=ended, outcome=root.outcome if ended else "", steps=sum(run.steps for run in runs),
        attempts=sum(run.attempts for run in runs), dead=any(run.dead for run in runs),
        tokens_in=used.tokens_in, tokens_out=used.tokens_out, cost=used.cost,
    )  # fmt: skip


def trees(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return the roots among `runs`, each summed up with its tree, the newest first."""
    members: dict[str, list[RunSummary]] = {}
    for run in runs:
        members.setdefault(run.root_id, []).append(run)
    roots = (run for tree_of in members.values() for run in tree_of if run.run_id == run.root_id)
    return newest_first(tree(root, members[root.run_id]) for root in roots)


# --- what matches


def select(entries: Iterable[JournalEntry], wanted: RunFilter) -> list[RunSummary]:
    """Return the runs in `entries` that match, the newest first."""
    return chosen(tallied(entries), wanted)


def chosen(found: Mapping[str, Tally], wanted: RunFilter) -> list[RunSummary]:
    """Return the runs among `found` that match, the newest first; of a tree all its runs have to be there."""
    runs = newest_first(tally.summary() for tally in found.values())
    listed = trees(runs) if wanted.trees else runs
    fitting = (run for run in listed if matches(run, wanted) and carries(found[run.run_id].box, wanted.message))
    return list(islice(fitting, max(0, wanted.limit)))


def matches(run: RunSummary, wanted: RunFilter) -> bool:
    """Tell whether a run's summary fits; the message is not in it, see `carries`."""
    return (
        (not wanted.runs or run.run_id.startswith(wanted.runs))
        and pattern(wanted.id).fullmatch(run.id) is not None
        and in_group(run.key, wanted.group)
        and has_outcome(run, wanted.outcome)
        and wanted.since <= run.started
        and (not wanted.until or run.started <= wanted.until)
    )


def in_group(key: str, group: str) -> bool:
    """Tell whether a lane belongs to `group`: the key itself, its last part, or the chat's id in that part."""
    if not group or key == group:
        return True
    chat = key.rpartition(":")[2]
    return bool(key) and group in (chat, chat.partition("-")[2])


def has_outcome(run: RunSummary, outcome: str) -> bool:
    """Tell whether a run came to `outcome`; `running` and `dead` stand for what is no outcome of its own."""
    special = {"": True, "running": not run.ended, "dead": run.dead}
    return special.get(outcome, run.outcome == outcome)


def carries(box: str, message: str) -> bool:
    """Tell whether a Box's wire text is of the chat message with this id."""
    if not message:
        return True
    import json

    if not box.startswith('{"j":') or "message_id" not in box:
        return False
    content = json.loads(box)["j"]
    return isinstance(content, dict) and content.get("message_id") == message
