"""Group commit: quick steps that follow each other in one process are committed by one script (DESIGN §5).

A step that only decides and says `next()` takes microseconds, its commit a hundred times that. So the commit of such a
step waits for the one of the step after it, when that is known to be quick as well, and goes in the same script: all of
the group or none of it. Nothing else may learn of the next step before: what it does beside its commit (an effect, a
look at its run) sends the waiting commits first, and the keeper sends those of a step that unexpectedly takes long.

When the process is lost meanwhile, the group's steps are executed again, like any step that was not committed. A run
that was tried before is never grouped, so that a step that kills its process is not mistaken for its neighbour.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lumia.flow import NEVER
from lumia.ports import Claim, Commit, Limits
from tasks import wire

LONGEST_SECONDS = 0.005
"""How long the first commit of a group may wait for the quick steps after it."""
MOST = 16
"""Commits in one group."""


@dataclass(frozen=True)
class Waiting:
    """A commit that was not sent yet. ended: when its step did, on the monotonic clock."""

    claim: Claim
    commit: Commit
    ended: float


@dataclass
class Group:
    """The commits of one claim that wait. Whoever holds the lock may send them."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[Waiting] = field(default_factory=list)

    @property
    def age(self) -> float:
        """Return for how many seconds the first one has waited, 0 when none does."""
        return time.monotonic() - self.waiting[0].ended if self.waiting else 0.0

    def drop(self) -> None:
        """Forget what was sent, or refused because the claim was lost."""
        self.waiting.clear()


class Groups:
    """The groups of one process, by run and token."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, int], Group] = {}
        self.is_quick: Callable[[str], bool] = lambda handler: False
        """Whether a handler is known to take microseconds; a worker knows, anyone else commits each step by itself."""

    def of(self, claim: Claim) -> Group | None:
        """Return the group of a claim's run, None when nothing waits."""
        return self._groups.get((claim.run_id, claim.token))

    def of_run(self, run_id: str) -> list[Group]:
        """Return what waits of a run, whichever claim made it."""
        return [group for (run, _), group in list(self._groups.items()) if run == run_id] if self._groups else []

    def overdue(self, seconds: float) -> list[Group]:
        """Return the groups that have waited longer than `seconds` and that nobody is sending."""
        return [one for one in list(self._groups.values()) if not one.lock.locked() and one.age > seconds]

    def end(self, claim: Claim) -> None:
        """Forget a claim's group."""
        self._groups.pop((claim.run_id, claim.token), None)

    def takes(self, claim: Claim, commit: Commit, limits: Limits) -> bool:
        """Let a commit wait if it may: its step went on to a quick one in this process, and did nothing else."""
        if not self._may_wait(claim, commit, limits):
            return False
        group = self._groups.setdefault((claim.run_id, claim.token), Group())
        with group.lock:
            if len(group.waiting) >= MOST or group.age > LONGEST_SECONDS:
                return False
            group.waiting.append(Waiting(claim, commit, time.monotonic()))
        return True

    def _may_wait(self, claim: Claim, commit: Commit, limits: Limits) -> bool:
        if not commit.fuse or commit.action != "next" or claim.arc:
            return False
        if commit.children or commit.store or commit.dead is not None:
            return False
        if claim.attempt != 1 or claim.losses or claim.overdue or claim.handbacks or claim.failures:
            return False
        this, follower = claim.plan.steps[claim.step], claim.plan.steps[commit.index]
        same_limit = wire.timeout_ms(this, limits) == wire.timeout_ms(follower, limits)
        return same_limit and self.is_quick(follower.handler)


def before(waiting: Sequence[Waiting]) -> list[dict[str, Any]]:
    """Return what commit.lua reads of the commits that go ahead of one."""
    return [{"x": one.claim.step, "rec": wire.record(one.commit.record), "j": _entry(one)} for one in waiting]


def _entry(one: Waiting) -> str:
    """Return the journal entry of a commit that has waited, with how long (ms) where that shows in a time line."""
    late = round((time.monotonic() - one.ended) * 1000, 3)
    entry = one.commit.entry
    return (replace(entry, detail={**entry.detail, "late": late}) if late >= 1.0 else entry).dump()


def fused(claim: Claim, commit: Commit) -> Claim:
    """Return the claim of the step that the same process goes on with."""
    return replace(
        claim, step=commit.index, attempt=1, box=claim.box if commit.box is None else commit.box, handbacks=0,
        overdue=0, waited=0.0, losses=0, failures=(), deferred=NEVER,
    )  # fmt: skip
