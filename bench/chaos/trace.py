"""What the handlers noted while they ran, and what it tells: recovery times, and live steps that were run again.

Handlers append a line to one file with one write each, so a SIGKILL loses none and tears none. Times are of the
system-wide monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tasks.keeper import TTL_SECONDS

START, END, RAISED = "s", "e", "x"
_TAKEN_BACK = re.compile(r"requeued: run (\S+) [^\s:]+:(\d+):\S+ dead")
SLACK_SECONDS = 0.5
"""How late a death may have been noticed."""
WINDOW_SECONDS = 60.0
"""A start later than this after a kill is another story."""


@dataclass(frozen=True)
class Line:
    """One note of a handler: it began, came to its end, or raised."""

    kind: str
    at: float
    pid: int
    run_id: str
    step: int
    handler: str


@dataclass(frozen=True)
class Death:
    """A process that ended. kill: by SIGKILL, so that others must take over what it held."""

    pid: int
    at: float
    kill: bool = True


@dataclass(frozen=True)
class Freeze:
    """A process that stood still."""

    pid: int
    begin: float
    end: float


def read(file: Path) -> list[Line]:
    """Return the lines of a trace, in order of time."""
    found = [_line(text) for text in file.read_text().splitlines()] if file.exists() else []
    return sorted(found, key=lambda line: line.at)


def _line(text: str) -> Line:
    kind, at, pid, run_id, step, handler = text.split(" ", 5)
    return Line(kind, float(at), int(pid), run_id, int(step), handler)


def holders(logs: Path) -> dict[str, set[int]]:
    """Return the processes that held a claim of a run when they died, as the reapers' logs tell, by run."""
    found: dict[str, set[int]] = defaultdict(set)
    for log in logs.glob("*.log"):
        for run_id, pid in _TAKEN_BACK.findall(log.read_text(errors="replace")):
            found[run_id].add(int(pid))
    return found


@dataclass(frozen=True)
class Recoveries:
    """Seconds per claim that a killed process held, until its run was in progress again elsewhere.

    usual: those that count. interrupted: those during which the broker was away or had just come back: until heartbeats
    have flowed again nobody is declared dead (docs/guarantees.md).
    """

    usual: tuple[float, ...] = ()
    interrupted: tuple[float, ...] = ()


def recoveries(
    lines: Sequence[Line],
    deaths: Iterable[Death],
    held: Mapping[str, Collection[int]] | None = None,
    outages: Sequence[tuple[float, float]] = (),
) -> Recoveries:
    """Return how long each claim of a killed process took to be in progress again.

    held: who held a claim of a run when it died, also without having begun its step. Where such a process had taken the
    run over and was killed in turn, one recovery ends there and the next one begins. outages: (begin, end) of the times
    in which the broker did not answer.
    """
    usual: list[float] = []
    interrupted: list[float] = []
    for begin, seconds in _recovered(lines, [death for death in deaths if death.kill], held or {}):
        away = any(out <= begin + seconds and begin <= back + TTL_SECONDS for out, back in outages)
        (interrupted if away else usual).append(seconds)
    return Recoveries(tuple(usual), tuple(interrupted))


def _recovered(
    lines: Sequence[Line], deaths: Sequence[Death], held: Mapping[str, Collection[int]]
) -> Iterator[tuple[float, float]]:
    by_run = _grouped(lines)
    runs_of: dict[int, set[str]] = defaultdict(set)
    for line in lines:
        runs_of[line.pid].add(line.run_id)
    for run_id, pids in held.items():
        for pid in pids:
            runs_of[pid].add(run_id)
    for death in deaths:
        for run_id in runs_of[death.pid]:
            mine = held.get(run_id, ())
            ends = [other.at for other in deaths if other.pid in mine and other.at > death.at]
            seconds = _recovery(by_run[run_id], death, min(ends, default=None), known=death.pid in mine)
            if seconds is not None:
                yield death.at, seconds


def _recovery(lines: Sequence[Line], death: Death, next_death: float | None, *, known: bool) -> float | None:
    """Return the seconds; None when the process held no claim: a step that ended and is not run again was committed."""
    before = [line for line in lines if line.at <= death.at]
    last = before[-1] if before else None
    if not known and (last is None or last.pid != death.pid):
        return None
    later = (line for line in lines if line.kind == START and line.at > death.at and line.pid != death.pid)
    again = next(later, None)
    if again is None or again.at - death.at > WINDOW_SECONDS:
        return None
    if not known and last is not None and last.kind != START and again.step != last.step:
        return None
    return min(again.at, next_death or again.at) - death.at


def rerun(lines: Sequence[Line], deaths: Iterable[Death], freezes: Iterable[Freeze]) -> list[tuple[Line, Line]]:
    """Return the pairs of starts of one step where nothing explains the second: the first was alive and at it.

    Explained are a first process that ended or stood still in between, a second one that stood still meanwhile and came
    back to a claim it had lost, and a handler that raised.
    """
    ended = {death.pid: death.at for death in deaths}
    frozen: dict[int, list[Freeze]] = defaultdict(list)
    for freeze in freezes:
        frozen[freeze.pid].append(freeze)
    steps: dict[tuple[str, int], list[Line]] = defaultdict(list)
    for line in lines:
        steps[line.run_id, line.step].append(line)
    found = []
    for notes in steps.values():
        starts = [note for note in notes if note.kind == START]
        for first, second in pairwise(starts):
            died = ended.get(first.pid, float("inf")) <= second.at + SLACK_SECONDS
            stood = any(freeze.begin <= second.at and freeze.end >= first.at for freeze in frozen[first.pid])
            stood |= any(freeze.begin <= first.at <= freeze.end for freeze in frozen[second.pid])
            raised = any(note.kind == RAISED and first.at <= note.at <= second.at for note in notes)
            if not (died or stood or raised):
                found.append((first, second))
    return found


def _grouped(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line.run_id].append(line)
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie (nearest rank), 0.0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
