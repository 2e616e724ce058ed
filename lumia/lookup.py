"""Looking runs up: by id, the beginning of one, a message's id or a group; and the trace of what was found.

A transport, where there is one, adds what the journal can't tell: where a run is that has not ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from lumia.dead import DeadFilter, DeadLetter, open_letters
from lumia.errors import UnknownRunError
from lumia.history import History, RunFilter, RunSummary, carries, newest_first
from lumia.ids import MEDIA, MESSAGE, id_time, is_beginning, is_message
from lumia.journal import JournalEntry
from lumia.ports import RunRecord
from lumia.trace import Live, Trace, build

SHORTEST = 4
"""Characters of an id's beginning that are looked for; fewer stand for most of the journal."""
HEAD = 10
"""Characters that the ids of a tree, and of the trees it started, have in common."""
MANY = 1000
CANDIDATES = 4
"""Ids that a message names at most."""
MORE = 50
"""Detached trees that are passed over at most in the search for a message."""
OPEN_RUNS = 200
"""Runs whose Boxes are looked into when no journalled one holds a message: those that have not ended."""


class Records(Protocol):
    """What is asked of a transport."""

    def run(self, run_id: str) -> RunRecord | None:
        """Return a run's record."""

    def lane_holder(self, key: str) -> str:
        """Return the run whose tree is served in a lane."""

    def dead(self, wanted: DeadFilter) -> Sequence[DeadLetter]:
        """Return dead letters."""


@dataclass(frozen=True)
class Found:
    """A tree, and the run in it that was asked for."""

    root_id: str
    run_id: str


class Lookup:
    """Runs of one history. now: seconds since 1970, for what has not ended."""

    def __init__(self, history: History, live: Records | None = None, *, now: float = 0.0) -> None:
        self.history, self._live, self._now = history, live, now

    def one(self, target: str) -> Found:
        """Return the run that `target` names: an id, the beginning of one, or the id of a message.

        Raises `UnknownRunError` for none, and for a beginning of several.
        """
        found = self._by_id(target) or self._by_message(target)
        if found is None:
            raise UnknownRunError(self._unknown(target))
        return found

    def _unknown(self, target: str) -> str:
        newest = [run.run_id for run in sorted(self._recent(1, ""), key=_told_last) if not _is_of_the_bus(run)]
        alike = [run_id for run_id in newest if run_id.startswith(target)]
        if alike and len(target) < SHORTEST:
            return (
                f"{target!r} is too short for the beginning of an id: give {SHORTEST} characters or more; of the "
                f"newest runs {_listed(alike)} begin with it; `lumia runs` lists all"
            )
        known = f"; the newest runs are {_listed(newest)}" if newest and is_beginning(target) else ""
        return (
            f"{target!r} is no run, no beginning of one's id and no message known here{known}; `lumia runs` lists what "
            "is known, `--file` looks into an exported journal"
        )

    def newest(self, number: int = 1, *, group: str = "") -> list[Found]:
        """Return the newest trees, newest first: pipelines, such as messages, before events and what they left behind.

        Raises `UnknownRunError` when there are none.
        """
        recent = self._recent(number, group)
        ids = (MESSAGE, f"{MEDIA}*")
        messages = [self.history.find(RunFilter(id=id, group=group, trees=True, limit=number)) for id in ids]
        known = {run.run_id: run for run in (*recent, *messages[0], *messages[1])}
        runs = sorted(newest_first(known.values()), key=_told_last)[:number]
        if not runs:
            raise UnknownRunError(
                f"no run of group {group!r} is known; `lumia runs` shows the groups there are"
                if group
                else "no run is known yet; send the bot a message, or look into another bot root"
            )
        return [Found(run.root_id, run.run_id) for run in runs]

    def _recent(self, number: int, group: str) -> list[RunSummary]:
        """Return the newest trees, from further back when the bus, which tells itself much, hides all others."""
        found: list[RunSummary] = []
        for limit in (number + MORE, number + MANY):
            found = self.history.find(RunFilter(group=group, trees=True, limit=limit))
            if len(found) < limit or not all(map(_is_of_the_bus, found)):
                break
        return found

    def _by_id(self, target: str) -> Found | None:
        if len(target) < SHORTEST or not id_time(target):
            return None
        runs = self.history.find(RunFilter(runs=(target,), limit=MANY))
        roots = sorted({run.root_id for run in runs if run.root_id.startswith(target)} or {run.root_id for run in runs})
        if len(roots) > 1:
            shown = _listed(roots[::-1])
            raise UnknownRunError(f"{len(roots)} runs begin with {target!r}: {shown}; give more of the id")
        if not runs:
            return self._unjournalled(target)
        inside = [run.run_id for run in runs if run.root_id == roots[0]]
        return Found(roots[0], inside[0] if len(inside) == 1 else roots[0])

    def _unjournalled(self, run_id: str) -> Found | None:
        """Return a run that the journal has lost sight of, while its record is still there."""
        record = self._live.run(run_id) if self._live else None
        return Found(record.root_id or run_id, run_id) if record else None

    def _by_message(self, message: str) -> Found | None:
        # What the message left behind, the memory's copy for one, carries its id, too, and is younger.
        runs = self.history.find(RunFilter(message=message, limit=MORE)) if message else []
        runs = sorted(runs, key=_told_last) or [run for run in self._open() if message and self._carries(run, message)]
        return Found(runs[0].root_id, runs[0].run_id) if runs else None

    def _open(self) -> list[RunSummary]:
        return self.history.find(RunFilter(outcome="running", limit=OPEN_RUNS)) if self._live else []

    def _carries(self, run: RunSummary, message: str) -> bool:
        record = self._live.run(run.run_id) if self._live else None
        return record is not None and carries(record.box, message)

    # --- traces

    def trace(self, found: Found) -> Trace:
        """Return the trace of a tree; raises `UnknownRunError` when nothing of it is recorded any more."""
        entries = self.entries(found.root_id) or self._from_record(found.root_id)
        if not entries:
            raise UnknownRunError(f"run {found.root_id} is no longer recorded; `lumia runs` lists what is")
        detached = self.history.find(RunFilter(runs=(found.root_id[:HEAD],), limit=MANY))
        return build(entries, mark=found.run_id, live=self._states(entries), detached=detached, now=self._now)

    def entries(self, root_id: str) -> list[JournalEntry]:
        """Return every entry of a tree, with what became of its dead letters however long after."""
        found = self.history.entries(root_id)
        left = open_letters(found)
        if left and self._live is not None:
            left -= {letter.name for letter in self._live.dead(DeadFilter(letters=tuple(left), limit=MANY))}
        return self.history.entries(root_id, late=True) if left else found

    def _from_record(self, run_id: str) -> list[JournalEntry]:
        """Return what a run's record tells, as entries, when the journal has dropped its own."""
        record = self._live.run(run_id) if self._live else None
        if record is None:
            return []
        same = JournalEntry("start", run_id, record.root_id or run_id, record.id, record.key, flow=record.flow,
                            time=record.started, cursor="0-0")  # fmt: skip
        end = replace(same, kind="end", flow="", outcome=record.outcome, reason=record.reason, time=record.ended)
        return [same, *([end] if record.finished else [])]

    def _states(self, entries: list[JournalEntry]) -> dict[str, Live]:
        if self._live is None:
            return {}
        ended = {entry.run_id for entry in entries if entry.kind == "end"}
        going_on = dict.fromkeys(entry.run_id for entry in entries if entry.run_id not in ended)
        records = {run_id: self._live.run(run_id) for run_id in going_on}
        return {run_id: self._state(record) for run_id, record in records.items() if record is not None}

    def _state(self, record: RunRecord) -> Live:
        holder = self._live.lane_holder(record.key) if self._live and record.state == "waiting" else ""
        return Live(record.state, holder if holder != record.root_id else "", record.handler, record.attempt)


def _is_of_the_bus(run: RunSummary) -> bool:
    return run.id.startswith("bus.")


def _told_last(run: RunSummary) -> tuple[bool, bool, bool]:
    return _is_of_the_bus(run), bool(run.cause), run.flow == "event" and not is_message(run.id)


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(ids[:CANDIDATES]) + (", …" if len(ids) > CANDIDATES else "")
