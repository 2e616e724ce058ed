"""Which fault comes when: everything follows from the seed, and is printed before it begins."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch

STEADY, SATURATED = "steady", "saturated"
STEADY_SHARE = 0.79
LEAD_SECONDS = 1.5
SETTLE_SECONDS = 1.0
"""Between a fault and the next one, at least."""
WORKER_SCRIPTS = ("claim", "commit", "move", "reap", "heartbeat", "publish")


@dataclass(frozen=True)
class Entry:
    """A fault that may be drawn. name: its name for `--only`; seconds: its usual length; text: what it is given."""

    name: str
    seconds: float
    saturated: bool = False
    peer: bool = False
    text: str = ""


@dataclass(frozen=True)
class Fault:
    """A fault at its time, in seconds from the beginning. seed: of its own choices."""

    at: float
    name: str
    seconds: float
    text: str
    seed: str

    def line(self) -> str:
        """Return the fault as the plan prints it."""
        return f"{self.at:7.1f} s  {self.name}{'  ' + self.text if self.text else ''}"


@dataclass(frozen=True)
class Phase:
    """A stretch of the load with its faults."""

    name: str
    begin: float
    end: float
    faults: tuple[Fault, ...]


def catalogue() -> list[Entry]:
    """Return every fault of the campaign."""
    return [
        Entry("kill-worker", 6, saturated=True, peer=True),
        Entry("kill-worker-busy", 9, saturated=True, peer=True),
        Entry("kill-worker-idle", 8, peer=True),
        Entry("freeze-worker", 11, saturated=True, peer=True),
        Entry("kill-child", 7, saturated=True),
        Entry("kill-prefork", 7),
        Entry("kill-gateway", 5),
        Entry("kill-beat", 4),
        Entry("kill-broker", 11, saturated=True),
        Entry("restart-broker", 11, saturated=True, peer=True),
        Entry("pause-broker", 10, saturated=True, peer=True),
        Entry("freeze-broker", 10, peer=True),
        Entry("cut-connections", 9, saturated=True, peer=True),
        Entry("poison", 28),
        Entry("hung", 5),
        Entry("revoke", 6),
        Entry("stop-worker", 7, peer=True),
        Entry("rolling-restart", 20, saturated=True, peer=True),
        *(
            Entry(f"failpoint-{script}", 9, text=f"{script}.before={again}|{script}.after={again}")
            for script, again in (("claim", "kill@5"), ("commit", "kill@9"), ("move", "kill@4"), ("reap", "kill@2"),
                                  ("heartbeat", "kill@2"), ("publish", "kill@1"))
        ),
        Entry("failpoint-cancel", 14, text="cancel.before=kill@1|cancel.after=kill@1"),
        Entry("failpoint-gateway", 8, text="start.before=kill@3|start.after=kill@3"),
        Entry("failpoint-gateway", 8, text="write.before=kill@3|write.after=kill@3"),
        Entry("failpoint-gateway", 8, text="keep.before=kill@3|keep.after=kill@3|keep.after=resend@*"),
        Entry("failpoint-gateway", 8, text="start.after=resend@*,write.after=resend@*,start.after=error@4"),
        Entry("failpoint-beat", 7, text="start.before=kill@1|start.after=kill@1"),
        Entry("resend", 9, saturated=True,
              text="claim.after=resend@*,commit.after=resend@*,move.after=resend@*,reap.after=resend@*"),
        Entry("lost-reply", 9, saturated=True,
              text="claim.after=error@3,commit.after=error@5,commit.before=error@9,commit.after=pause(300)@12"),
    ]  # fmt: skip


def chosen(entries: Iterable[Entry], only: Sequence[str]) -> list[Entry]:
    """Return the entries whose name one of the patterns fits; all of them for no pattern.

    Raises `ValueError` for a pattern that fits none.
    """
    known = list(entries)
    for pattern in only:
        if not any(fnmatch(entry.name, pattern) for entry in known):
            names = ", ".join(dict.fromkeys(entry.name for entry in known))
            raise ValueError(f"no fault is called {pattern!r}; there are {names}")
    return [entry for entry in known if not only or any(fnmatch(entry.name, pattern) for pattern in only)]


def make(seed: int, seconds: float, entries: Sequence[Entry]) -> list[Phase]:
    """Return the phases of a campaign of `seconds` with faults drawn by `seed`, always the same ones."""
    turn = seconds * STEADY_SHARE
    return [
        Phase(STEADY, 0.0, turn, _drawn(f"{seed}/{STEADY}", 0.0, turn, entries)),
        Phase(SATURATED, turn, seconds,
              _drawn(f"{seed}/{SATURATED}", turn, seconds, [entry for entry in entries if entry.saturated])),
    ]  # fmt: skip


def _drawn(seed: str, begin: float, end: float, entries: Sequence[Entry]) -> tuple[Fault, ...]:
    """Draw every entry once in random order, then again, until the time is up."""
    chance = random.Random(seed)
    at, found, waiting = begin + LEAD_SECONDS, list[Fault](), list[Entry]()
    while entries and at < end:
        if not waiting:
            waiting = chance.sample(list(entries), len(entries))
        entry = waiting.pop()
        if at + entry.seconds <= end:
            found.append(Fault(at, entry.name, entry.seconds, entry.text, f"{seed}/{len(found)}"))
            at += entry.seconds + SETTLE_SECONDS + chance.uniform(0.0, 1.0)
        elif all(at + other.seconds > end for other in waiting):
            break
    return tuple(found)
