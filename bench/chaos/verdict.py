"""Accounting: what was accepted against what came out. Pure, so that planted violations can be tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.chaos.trace import Recoveries, percentile

MAX_RECOVERY_SECONDS = 10.0
MAX_NAMED = 50
SIDE = ("children lost", "children duplicated", "children order", "replies lost", "ticks lost", "ticks duplicated")


@dataclass(frozen=True)
class Accepted:
    """A message that was accepted: its group, its number there, when (monotonic), and its run."""

    group: str
    n: int
    at: float
    run_id: str = ""

    def __str__(self) -> str:
        return f"{self.group}/{self.n}"


@dataclass
class Evidence:
    """What a campaign saw. Messages are named "group/n".

    unsure: messages whose acceptance stayed unknown: they may come out, once, anywhere. done, children: the numbers
    each group's list holds. dead: run → reason of the dead letters; expected_dead: the runs that are meant to end
    there. retried, held: how often each effect was made; replies: how often each webhook message was answered; marked:
    which messages make which of these. ticks: due times that were fired. revoked: run → outcome. recoveries: seconds.
    rerun: live steps that were run again. stale: commits refused. exposed: messages whose loss the broker's fsync
    policy allows. unfinished: those whose run is there and goes on.
    """

    accepted: Sequence[Accepted] = ()
    unsure: frozenset[str] = frozenset()
    done: Mapping[str, Sequence[int]] = field(default_factory=dict)
    children: Mapping[str, Sequence[int]] | None = None
    dead: Mapping[str, str] = field(default_factory=dict)
    expected_dead: frozenset[str] = frozenset()
    retried: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    replies: Counter[str] = field(default_factory=Counter)
    marked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    ticks: Sequence[float] = ()
    revoked: Mapping[str, str] = field(default_factory=dict)
    recoveries: Recoveries = field(default_factory=Recoveries)
    rerun: int = 0
    stale: int = 0
    exposed: frozenset[str] = frozenset()
    unfinished: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """The figures of the table, and the first few messages behind each violation, by name."""

    figures: Mapping[str, Any]
    violations: Mapping[str, Sequence[str]]

    @property
    def ok(self) -> bool:
        """Tell whether nothing was violated."""
        return not any(self.violations.values())


def judge(seen: Evidence, *, strict: bool = True, named: int | None = MAX_NAMED) -> Verdict:
    """Return the verdict; `strict` is for Lumia, the peer is measured without its promises.

    named: how many messages of each violation are named at most, None for all.
    """
    missing = _missing(seen)
    slow = [
        f"{seconds:.1f} s" for seconds in [percentile(seen.recoveries.usual, 0.99)] if seconds >= MAX_RECOVERY_SECONDS
    ]
    violations: dict[str, list[str]] = {
        "lost": [str(one) for one in missing if str(one) not in seen.exposed | seen.unfinished],
        "unfinished": sorted(seen.unfinished & {str(one) for one in missing}),
        "duplicated": _doubled(seen.done),
        "order": _disordered(seen.done, seen.unsure),
        "never accepted": _strangers(seen),
    }
    if strict:
        violations |= _promises(seen) | {"slow recovery": slow}
    figures = {
        "accepted": len(seen.accepted),
        "committed": sum(len(set(numbers)) for numbers in seen.done.values()),
        "lost": len(violations["lost"]),
        "unfinished": len(violations["unfinished"]),
        "lost within the fsync window": len(missing) - len(violations["lost"]) - len(violations["unfinished"]),
        "duplicated commits": len(violations["duplicated"]),
        "order violations": len(violations["order"]),
        "acceptance unknown": len(seen.unsure),
    }
    if strict:
        figures |= _strict_figures(seen, violations)
    return Verdict(figures, {name: found[:named] for name, found in violations.items() if found})


def _strict_figures(seen: Evidence, violations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "lost or doubled children, replies, ticks": sum(len(violations[name]) for name in SIDE),
        "effects made": sum(seen.retried.values()) + sum(seen.held.values()) + sum(seen.replies.values()),
        "unknown effects made again": _extra(seen.retried) + _extra(seen.replies),
        "hold effects made twice": len(violations["hold effects twice"]),
        "dead letters, expected": len(_expected(seen)),
        "dead letters, unexpected": len(violations["unexpected dead letters"]),
        "revoked runs ended": len(seen.revoked),
        "live steps run again": seen.rerun,
        "stale commits refused": seen.stale,
        "claims recovered": len(seen.recoveries.usual),
        "recovery p50 s": round(percentile(seen.recoveries.usual, 0.5), 2),
        "recovery p99 s": round(percentile(seen.recoveries.usual, 0.99), 2),
        "recovery max s": round(max(seen.recoveries.usual, default=0.0), 2),
        "claims recovered, broker away": len(seen.recoveries.interrupted),
        "recovery then, max s": round(max(seen.recoveries.interrupted, default=0.0), 2),
    }


def _promises(seen: Evidence) -> dict[str, list[str]]:
    """Return what only Lumia promises: children, effects, dead letters, ticks, revocations, live claims."""
    committed = {f"{group}/{n}" for group, numbers in seen.done.items() for n in numbers}
    children = seen.children or {}
    born = {f"{group}/{n}" for group, numbers in children.items() for n in numbers}
    due = Counter(seen.ticks)
    expected = _expected(seen)
    return {
        "children lost": sorted(committed - born) if seen.children is not None else [],
        "children duplicated": _doubled(children),
        "children order": _disordered(children, seen.unsure),
        "effects lost": sorted(_marked(seen, "retry") & committed - set(seen.retried)),
        "hold effects lost": sorted(_marked(seen, "hold") & committed - set(seen.held)),
        "hold effects twice": sorted(name for name, times in seen.held.items() if times > 1),
        "replies lost": sorted(_marked(seen, "reply") & committed - set(seen.replies)),
        "ticks lost": [str(moment) for moment in _gaps(sorted(due))],
        "ticks duplicated": [str(moment) for moment, times in due.items() if times > 1],
        "unexpected dead letters": [f"{run}: {why}" for run, why in seen.dead.items() if run not in expected],
        "revoked runs stuck": [run for run, outcome in seen.revoked.items() if not outcome],
        "live steps run again": [str(seen.rerun)] if seen.rerun else [],
    }


def _expected(seen: Evidence) -> set[str]:
    """Return the dead letters that are meant to be: poison, hung steps, and effects held because nobody knows."""
    return {run for run, why in seen.dead.items() if run in seen.expected_dead or "its policy is 'hold'" in why}


def _missing(seen: Evidence) -> list[Accepted]:
    found = {group: set(numbers) for group, numbers in seen.done.items()}
    return [one for one in seen.accepted if one.n not in found.get(one.group, ()) and one.run_id not in seen.dead]


def _doubled(lists: Mapping[str, Sequence[int]]) -> list[str]:
    return [f"{group}/{n}" for group, numbers in lists.items() for n, times in Counter(numbers).items() if times > 1]


def _disordered(lists: Mapping[str, Sequence[int]], unsure: Iterable[str]) -> list[str]:
    """Return the messages that came after one that was accepted later."""
    free = set(unsure)
    found = []
    for group, numbers in lists.items():
        highest = -1
        for n in numbers:
            if f"{group}/{n}" in free:
                continue
            if n < highest:
                found.append(f"{group}/{n}")
            highest = max(highest, n)
    return found


def _strangers(seen: Evidence) -> list[str]:
    known = {str(one) for one in seen.accepted} | seen.unsure
    return sorted({f"{group}/{n}" for group, numbers in seen.done.items() for n in numbers} - known)


def _marked(seen: Evidence, kind: str) -> frozenset[str]:
    return seen.marked.get(kind, frozenset())


def _extra(times: Counter[str]) -> int:
    return sum(count - 1 for count in times.values())


def _gaps(moments: Sequence[float]) -> list[float]:
    """Return the seconds in which no tick was due although earlier and later ones were."""
    if not moments:
        return []
    known = set(moments)
    return [float(second) for second in range(int(moments[0]), int(moments[-1])) if float(second) not in known]
