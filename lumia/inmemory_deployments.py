"""What of the in-memory transport is about deployments; the same decisions as `tasks/scripts/deployment.lua`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lumia.deployment import (
    ALIVE_SECONDS,
    BREAK_SECONDS,
    KEPT,
    LOADING_SECONDS,
    LOST_TURN,
    Decided,
    Holder,
    Member,
    Progress,
    Standing,
    State,
    Wanted,
    made_from,
)
from lumia.errors import BusyDeploymentError, BusyTurnError, StaleDeploymentError

if TYPE_CHECKING:
    from lumia.inmemory_run import Run
    from lumia.routes import RouteTable
    from lumia.system import Clock


@dataclass
class _Newest:
    number: int
    wanted: Wanted
    began: float
    until: float
    state: State = "preparing"
    answers: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    table: RouteTable | None = None


class MemoryDeployments:
    """Implements `lumia.deployment.Deployments` for one process. publish: makes a route table the published one."""

    def __init__(
        self, clock: Clock, changed: threading.Condition, runs: Mapping[str, Run], publish: Callable[[Any], object]
    ) -> None:
        self._clock, self._changed, self._runs, self._publish = clock, changed, runs, publish
        self._members: dict[str, tuple[Member, float]] = {}
        self._newest: _Newest | None = None
        self._active: tuple[int, Wanted | None] = (0, None)
        self._ended: deque[Decided] = deque(maxlen=KEPT)
        self._number = self._token = 0
        self._turn: tuple[Holder, float] | None = None
        self._seen = self._calm = clock.monotonic()

    @property
    def active(self) -> int:
        """Return the number of the active deployment."""
        return self._active[0]

    def begin(self, wanted: Wanted, seconds: float, base: int | None = None, turn: int = 0) -> int:
        """Begin a deployment that has `seconds` to be prepared, made from `base`."""
        with self._changed:
            self._settle()
            newest = self._newest
            if newest is not None and wanted.operation and newest.wanted == wanted:
                return newest.number
            if newest is not None and newest.state == "preparing":
                raise BusyDeploymentError(newest.number, newest.wanted.origin)
            if turn not in (0, self._token):
                raise StaleDeploymentError(LOST_TURN)
            if base not in (None, self.active):
                raise StaleDeploymentError(made_from(base, self.active))
            self._number += 1
            now = self._clock.monotonic()
            self._newest = _Newest(self._number, wanted, now, now + seconds)
            self._settle()
            return self._number

    def take_turn(self, holder: Holder, seconds: float, over: int = 0) -> int:
        """Take the turn to change the bot's plugins."""
        with self._changed:
            now = self._clock.monotonic()
            has, until = self._turn or (holder, now)
            if has.owner != holder.owner and now < until and over != self._token:
                raise BusyTurnError(self._token, has.place, str(has))
            if self._turn is None or has.owner != holder.owner:
                self._token += 1
                has = replace(holder, since=self._clock.now())
            self._turn = has, now + seconds
            return self._token

    def keep_turn(self, token: int, seconds: float) -> bool:
        """Keep a turn."""
        with self._changed:
            if self._turn is None or token != self._token:
                return False
            self._turn = self._turn[0], self._clock.monotonic() + seconds
            return True

    def end_turn(self, token: int) -> None:
        """Give a turn back."""
        with self._changed:
            if token == self._token:
                self._turn = None

    def attend(self, member: Member) -> Standing:
        """Tell that this process lives, and what it has."""
        with self._changed:
            self._note()
            self._members[member.name] = (member, self._clock.monotonic())
            return self._standing()

    def leave(self, name: str) -> None:
        """Sign off."""
        with self._changed:
            self._members.pop(name, None)
            if self._newest is not None and self._newest.answers.get(name, ("",))[0] == "loading":
                del self._newest.answers[name]
            self._settle()

    def answer(
        self, number: int, name: str, said: Literal["loading", "ready", "failed"], reasons: tuple[str, ...] = (),
        table: RouteTable | None = None,
    ) -> Standing:  # fmt: skip
        """Tell how this process fares with a deployment."""
        with self._changed:
            newest = self._newest
            if newest is not None and newest.number == number and newest.state == "preparing":
                newest.answers[name] = (said, reasons)
                newest.table = newest.table or table
            return self._standing()

    def look(self) -> Standing:
        """Return where things stand, decided if it can be."""
        with self._changed:
            self._note()
            return self._standing()

    def progress(self) -> Progress | None:
        """Return what is being prepared."""
        with self._changed:
            newest = self._newest
            if newest is None or newest.state != "preparing":
                return None
            ready = tuple(sorted(name for name, (said, _) in newest.answers.items() if said == "ready"))
            return Progress(newest.number, newest.wanted, tuple(self._open(newest)), ready)

    def wanted(self, number: int) -> Wanted | None:
        """Return what a deployment brings."""
        with self._changed:
            if self._newest is not None and self._newest.number == number:
                return self._newest.wanted
            return self._active[1] if self._active[0] == number else None

    def decided(self) -> list[Decided]:
        """Return what became of the last deployments, newest first."""
        with self._changed:
            return list(reversed(self._ended))

    def members(self) -> list[Member]:
        """Return the live members."""
        with self._changed:
            return [self._members[name][0] for name in sorted(self._alive())]

    def in_use(self) -> frozenset[tuple[str, str]]:
        """Return (handler, generation) of every step in the plans of runs in flight."""
        with self._changed:
            plans = {run.request.plan for run in self._runs.values() if run.state != "finished"}
            return frozenset((step.handler, step.generation) for plan in plans for step in plan.steps)

    # --- deciding

    def _note(self) -> None:
        now = self._clock.monotonic()
        if now - self._seen > BREAK_SECONDS:
            self._calm = now
        self._seen = now

    def _standing(self) -> Standing:
        self._settle()
        newest = self._newest
        return Standing(newest.number if newest else 0, newest.state if newest else "", self._active[0])

    def _alive(self, seconds: float = ALIVE_SECONDS) -> set[str]:
        since = self._clock.monotonic() - seconds
        return {name for name, (_, at) in self._members.items() if at > since}

    def _open(self, newest: _Newest) -> list[str]:
        loading = {name for name, (said, _) in newest.answers.items() if said == "loading"}
        waited = self._alive() | (loading & self._alive(LOADING_SECONDS))
        return sorted(name for name in waited if newest.answers.get(name, ("",))[0] != "ready")

    def _settle(self) -> None:
        newest, now = self._newest, self._clock.monotonic()
        if newest is None or newest.state != "preparing":
            return
        bad = [(name, why) for name, (said, whys) in newest.answers.items() if said == "failed" for why in whys]
        if len(self._alive()) < len(self._members) and now - self._calm < ALIVE_SECONDS and not bad:
            return
        here = self._alive(LOADING_SECONDS)
        bad += [(name, "died while it loaded") for name, (said, _) in newest.answers.items()
                if said == "loading" and name not in here]  # fmt: skip
        late = self._open(newest)
        if not bad and late and now >= newest.until:
            bad = [(name, f"has not answered within {newest.until - newest.began:g} s") for name in late]
        if bad or not late:
            self._decide(newest, tuple(sorted(bad)))

    def _decide(self, newest: _Newest, reasons: tuple[tuple[str, str], ...]) -> None:
        newest.state = "rolled back" if reasons else "active"
        if not reasons:
            self._active = (newest.number, newest.wanted)
            if newest.table is not None:
                self._publish(newest.table)
        ready = sum(said == "ready" for said, _ in newest.answers.values())
        took = self._clock.monotonic() - newest.began
        self._ended.append(
            Decided(newest.number, newest.state, newest.wanted.operation, reasons, ready, self._clock.now(), took)
        )
        self._changed.notify_all()
