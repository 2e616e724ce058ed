"""The history of the runs that the journal's Redis stream still holds.

Redis is asked for a bounded batch at a time, so no scan keeps the workers waiting. A run's id tells when it was made:
looking for one begins at its own time, listing the newest ones at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from lumia.dead import open_letters
from lumia.history import RunFilter, RunSummary, Tally, chosen, matches, newest_first, root_of, trees
from lumia.ids import LENGTH, id_time
from lumia.journal import JournalEntry
from tasks.archive.rows import stream_row

BATCH = 500
"""Rows of one answer; some carry a Box."""
MARGINS = (2.0, 300.0)
"""Seconds by which the clock that made an id may differ from the broker's: the usual, then the unusual."""
HEAD = 10
"""Characters of an id that tell its time; all runs of a tree share them."""
MAX_WINDOW = 3600.0
"""Seconds of journal that are searched from the front for the beginning of an id; else it is read from the end."""
SETTLED = 1.0
"""Seconds after a tree's last entry in which another one of it may still follow."""

Ask = Callable[..., Any]
Progress = Callable[[int], None]


class StreamHistory:
    """The runs of one stream. ask: sends a command to Redis. progress: hears of batches.

    Only what the stream still holds is known; what was trimmed is in the archive, if there is one.
    """

    def __init__(self, ask: Ask, stream: str, progress: Progress | None = None) -> None:
        self._ask, self._stream = ask, stream
        self.progress = progress or (lambda scanned: None)

    def find(self, wanted: RunFilter) -> list[RunSummary]:
        """Return the runs that match, the newest first."""
        window = _window(wanted.runs)
        for margin in MARGINS if window is not None else ():
            assert window is not None
            found = chosen(self._around(wanted.runs, window, margin), wanted)
            if found:
                return found
        return self._newest(wanted)

    def entries(self, root_id: str, *, late: bool = False) -> list[JournalEntry]:
        """Return every entry of the tree whose root is `root_id`, in the journal's order; empty when unknown.

        late: reads on after its end until it is told what became of each of its dead letters, or until the newest one.
        """
        made = id_time(root_id)
        for margin in MARGINS:
            found = list(self._tree(root_id, max(0.0, made - margin), made + margin))
            if found and found[0].kind == "start":
                return found + (self._later(found) if late else [])
        return list(self._tree(root_id, 0.0, math.inf))

    def _later(self, found: list[JournalEntry]) -> list[JournalEntry]:
        more: list[JournalEntry] = []
        known, left, root = {entry.cursor for entry in found}, open_letters(found), root_of(found[0])
        for entry in self._forward(found[-1].time) if left else ():
            if root_of(entry) == root and entry.cursor not in known:
                more.append(entry)
                left = open_letters([*found, *more])
                if not left:
                    break
        return more

    def _tree(self, root_id: str, first: float, last: float) -> Iterator[JournalEntry]:
        """Yield the tree's entries from `first` on up to its end; one that has not begun by `last` is not there."""
        begun: set[str] = set()
        ended: set[str] = set()
        for entry in self._forward(first):
            if root_of(entry) == root_id:
                begun.add(entry.run_id)
                ended.update([entry.run_id] if entry.kind == "end" else ())
                last = entry.time + SETTLED
                yield entry
            elif entry.time > last and begun == ended:
                return

    def _around(self, runs: tuple[str, ...], window: tuple[float, float], margin: float) -> dict[str, Tally]:
        """Sum up the runs made in the moments of these ids, from those moments on until all of them have ended."""
        heads = tuple(run[:HEAD] for run in runs)
        found: dict[str, Tally] = {}
        for entry in self._forward(max(0.0, window[0] - margin)):
            if entry.run_id.startswith(heads):
                found.setdefault(entry.run_id, Tally(entry.run_id)).add(entry)
            elif entry.time > window[1] + margin and all(tally.ended for tally in found.values()):
                break
        return found

    def _newest(self, wanted: RunFilter) -> list[RunSummary]:
        """Read from the end; at a run's start everything it has come to since is known."""
        open_runs: dict[str, Tally] = {}
        members: dict[str, list[RunSummary]] = {}
        found: list[RunSummary] = []
        for entry in self._backward():
            enough = len(found) >= max(0, wanted.limit) and (not found or entry.time < found[-1].started)
            if enough or entry.time < wanted.since:
                break
            if not entry.run_id:
                continue
            tally = open_runs.setdefault(entry.run_id, Tally(entry.run_id))
            tally.add(entry)
            if entry.kind == "start":
                del open_runs[entry.run_id]
                found += _settled(tally, wanted, members)
        else:
            for tally in sorted(open_runs.values(), key=lambda one: one.run_id == one.summary().root_id):
                found += _settled(tally, wanted, members)
        return newest_first(found)[: max(0, wanted.limit)]

    # --- rows

    def _forward(self, first: float) -> Iterator[JournalEntry]:
        return self._rows("xrange", f"{int(first * 1000)}-0", "+")

    def _backward(self) -> Iterator[JournalEntry]:
        """Yield entries, the newest first, each run's end before its last step."""
        return self._rows("xrevrange", "+", "-")

    def _rows(self, command: str, begin: str, end: str) -> Iterator[JournalEntry]:
        scanned = 0
        while True:
            rows = self._ask(command, self._stream, begin, end, count=BATCH)
            for id_, row in rows:
                entries = stream_row(id_, row).entries()
                yield from entries if command == "xrange" else reversed(entries)
            scanned += len(rows)
            self.progress(scanned)
            if len(rows) < BATCH:
                return
            begin = f"({rows[-1][0].decode()}"


def _settled(tally: Tally, wanted: RunFilter, members: dict[str, list[RunSummary]]) -> list[RunSummary]:
    """Return the run when it fits; of trees, the one that this run is the root of, with the members met before."""
    if not wanted.trees:
        return chosen({tally.run_id: tally}, wanted)
    run = tally.summary()
    members.setdefault(run.root_id, []).append(run)
    if run.run_id != run.root_id or not chosen({tally.run_id: tally}, _any_outcome(wanted)):
        return []
    return [one for one in trees(members.pop(run.root_id)) if matches(one, wanted)]


def _any_outcome(wanted: RunFilter) -> RunFilter:
    return replace(wanted, outcome="", trees=False, limit=1)


def _window(runs: tuple[str, ...]) -> tuple[float, float] | None:
    """Return from when to when runs with these beginnings were made, None when that says too little."""
    if not runs:
        return None
    first = min(id_time(run) for run in runs)
    last = max(id_time(run[:LENGTH].ljust(HEAD, "z")) for run in runs)
    return (first, last) if first > 0 and last - first <= MAX_WINDOW else None
