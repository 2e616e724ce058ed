"""The lanes, bursts and rates of the in-memory transport: who waits for whom, and who gets the next turn."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Protocol

from lumia.box import limit as largest_box
from lumia.boxwire import joined, utf8_length
from lumia.errors import LaneFullError, RateLimitedError
from lumia.inmemory_run import Run
from lumia.lanes import (
    TOTALS,
    LaneInfo,
    LaneReport,
    Rate,
    Verdict,
    full_reason,
    full_text,
    gcra,
    limited_text,
    rate_reason,
    stale_reason,
)
from lumia.ports import RunRequest
from lumia.system import Clock

MAX_RATES = 10_000
"""Rates that are looked through for idle ones."""


class World(Protocol):
    """What lanes ask of the transport they belong to."""

    clock: Clock

    def push(self, run: Run) -> None:
        """Make the run's next step ready to be claimed."""

    def drop(self, run: Run, outcome: str, reason: str) -> None:
        """End a run that nobody executes."""

    def number(self) -> int:
        """Return a number larger than any before."""


class Lanes:
    """Every lane that is not idle; an idle one leaves nothing behind."""

    def __init__(self, world: World, runs: Mapping[str, Run]) -> None:
        self._world = world
        self._runs = runs
        self._holders: dict[str, tuple[str, float]] = {}
        self._waiting: dict[str, deque[str]] = {}
        self._inner: dict[str, deque[str]] = {}
        self._active: dict[str, str] = {}
        self._bursts: dict[tuple[str, str, str, bool], str] = {}
        self._rates: dict[str, float] = {}
        self.totals = dict.fromkeys(TOTALS, 0)

    @property
    def idle(self) -> bool:
        """Tell whether nothing of any lane is kept."""
        return not (self._holders or self._waiting or self._inner or self._active or self._bursts)

    def holder(self, key: str) -> str:
        """Return the run whose tree is served in a lane, "" when none is."""
        return self._holders.get(key, ("", 0.0))[0]

    # --- accepting

    def refuse(self, requests: Iterable[RunRequest]) -> None:
        """Raise what speaks against these requests, before any of them is accepted."""
        ahead: dict[str, int] = {}
        rates: dict[str, float] = {}
        for request in requests:
            self._check_room(request, ahead)
            self._check_rate(request, rates)

    def _check_room(self, request: RunRequest, ahead: dict[str, int]) -> None:
        key, lane = request.key, request.lane
        if not key or request.inside or request.delay or (lane and lane.collect and self._open(request)):
            return
        taken = key in self._holders or key in ahead
        waiting = len(self._waiting.get(key, ())) + ahead.get(key, 0)
        if taken and lane and lane.cap is not None and lane.overflow == "reject" and waiting >= lane.cap:
            self.totals["rejected"] += 1
            raise LaneFullError(full_text(key, waiting, lane.cap))
        ahead[key] = ahead.get(key, 0) + taken

    def _check_rate(self, request: RunRequest, rates: dict[str, float]) -> None:
        rate, name = request.rate, request.limit_name
        if rate is None or self._open(request):
            return
        wait, rates[name] = gcra(rates.get(name, self._rates.get(name, 0.0)), self._now(), rate, reserve=True)
        if wait and rate.over == "reject":
            self.totals["rejected"] += 1
            raise RateLimitedError(limited_text(name, str(rate), wait), wait=wait)

    def join(self, request: RunRequest) -> Run | None:
        """Add a message to the burst that waits for it, if one does; returns its run."""
        run = self._open(request)
        if run is None:
            return None
        assert request.lane is not None
        run.box = joined(run.box, request.box)
        run.began_with = run.box
        run.guests.add(request.run_id)
        if run.state == "delayed":
            run.due = max(run.slot, min(self._now() + request.lane.collect, run.burst_end))
            run.place = self._world.number()
        self.totals["collected"] += 1
        return run

    def _open(self, request: RunRequest) -> Run | None:
        """Return the run a message may join: one that collects, or that waits at its lane's end, nobody behind it."""
        if request.lane is None or not request.lane.collect:
            return None
        run = self._runs.get(self._bursts.get(_burst(request), ""))
        if run is None or utf8_length(run.box) + utf8_length(request.box) + 1 > largest_box():
            return None
        last = self._waiting.get(request.key, ("",))[-1] == run.request.run_id
        return run if last or (run.state == "delayed" and self._now() < run.burst_end) else None

    def collect(self, run: Run) -> float:
        """Open a burst; returns the seconds until it ends, if no more messages come."""
        request, lane = run.request, run.request.lane
        assert lane is not None
        self._bursts[_burst(request)] = request.run_id
        run.burst_end = self._now() + lane.longest
        return lane.collect

    def close_burst(self, run: Run) -> None:
        """Let nothing join this run any more."""
        name = _burst(run.request)
        if run.burst_end and self._bursts.get(name) == run.request.run_id:
            del self._bursts[name]

    def reserve(self, request: RunRequest) -> tuple[float, str]:
        """Return how long a run has to wait for its rate, and why it is dropped instead ("" when it isn't)."""
        rate, name = request.rate, request.limit_name
        if rate is None:
            return 0.0, ""
        wait, tat = gcra(self._rates.get(name, 0.0), self._now(), rate, reserve=rate.over == "delay")
        self._remember(name, tat)
        if wait and rate.over != "delay":
            self.totals["dropped"] += 1
            return 0.0, rate_reason(name, rate)
        return wait, ""

    def limit(self, name: str, rate: Rate) -> Verdict:
        """Count one more under `name` if `rate` allows it."""
        wait, tat = gcra(self._rates.get(name, 0.0), self._now(), rate)
        self._remember(name, tat)
        return Verdict(not wait, wait)

    def _remember(self, name: str, tat: float) -> None:
        self._rates[name] = tat
        if len(self._rates) > MAX_RATES:
            now = self._now()
            self._rates = {known: time for known, time in self._rates.items() if time > now}

    # --- turns

    def enter(self, run: Run) -> None:
        """Let a run go on: at once, when it has its turn or needs none, else when its turn comes."""
        key = run.request.key
        if not key or run.holds:
            self._turn(run)
        elif run.request.inside:
            self._enter_inside(run, key)
        elif key in self._holders:
            self._wait(run, key)
        else:
            self._hold(run, key)

    def _turn(self, run: Run) -> None:
        self.close_burst(run)
        run.returning = False
        if not self.drop_stale(run):
            self._world.push(run)

    def drop_stale(self, run: Run) -> bool:
        """End a run that has waited too long for its first try, if that is its policy."""
        lane = run.request.lane
        if lane is None or not lane.max_age or run.attempt > run.request.attempt or run.step:
            return False
        waited = self._world.clock.now() - run.started - run.request.delay
        run.stale = max(0.0, waited - lane.max_age)
        if not run.stale or lane.stale == "run":
            return False
        self.totals["stale"] += 1
        self._world.drop(run, "stopped", stale_reason(waited, lane.max_age))
        return True

    def _hold(self, run: Run, key: str) -> None:
        self._holders[key] = (run.request.run_id, self._world.clock.now())
        run.holds = True
        self._turn(run)

    def _wait(self, run: Run, key: str) -> None:
        if run.returning or self._has_room(run, key):
            run.state = "waiting"
            _queue(self._waiting.setdefault(key, deque()), run, self._is_returning)

    def _has_room(self, run: Run, key: str) -> bool:
        options = run.request.lane
        if options is None or options.cap is None:
            return True
        if options.cap and options.overflow == "drop_oldest":
            self._evict(key, options.cap)
        if len(self._waiting.get(key, ())) < options.cap:
            return True
        self.totals["dropped"] += 1
        self._world.drop(run, "stopped", full_reason(key, options.cap, evicted=False))
        return False

    def _evict(self, key: str, cap: int) -> None:
        """End the oldest runs that have not begun until there is room for one more."""
        lane = self._waiting.get(key, ())
        fresh = [id for id in lane if not self._is_returning(id)]
        for oldest in fresh[: max(0, len(lane) + 1 - cap)]:
            self.totals["dropped"] += 1
            self._world.drop(self._runs[oldest], "stopped", full_reason(key, cap, evicted=True))

    def _is_returning(self, run_id: str) -> bool:
        return self._runs[run_id].returning

    def _enter_inside(self, run: Run, key: str) -> None:
        if self._active.get(key, run.request.run_id) != run.request.run_id:
            run.state = "waiting"
            _queue(self._inner.setdefault(key, deque()), run, self._is_returning)
            return
        self._active[key] = run.request.run_id
        self._turn(run)

    def step_aside(self, run: Run) -> None:
        """Let the next child of the lane's tree run: they run one at a time, in the order they were started."""
        key = run.request.key
        if not run.request.inside or self._active.get(key) != run.request.run_id:
            return
        del self._active[key]
        if self._inner.get(key):
            self._enter_inside(self._pop(self._inner, key), key)

    def release(self, run: Run) -> None:
        """Give the lane that a run holds to the next one."""
        if not run.holds:
            return
        key = run.request.key
        run.holds = False
        del self._holders[key]
        self.totals["served"] += 1
        while waiting := self._waiting.get(key):
            follower = self._runs[waiting[0]]
            if not self.drop_stale(follower):
                self._hold(self._pop(self._waiting, key), key)
                return

    def _pop(self, lanes: dict[str, deque[str]], key: str) -> Run:
        run = self._runs[lanes[key].popleft()]
        run.state = "queued"
        if not lanes[key]:
            del lanes[key]
        return run

    def let_go(self, run: Run) -> None:
        """Let others go ahead while a run waits for its retry, unless parts of its tree still run."""
        if run.request.inside:
            run.returning = True
            self.step_aside(run)
        elif run.holds and run.pending == 1:
            run.returning = True
            self.release(run)

    def forget(self, run: Run) -> None:
        """Take a run that ends out of whatever it waits in."""
        self.close_burst(run)
        if run.state != "waiting":
            return
        lanes = self._inner if run.request.inside else self._waiting
        lane = lanes[run.request.key]
        lane.remove(run.request.run_id)
        if not lane:
            del lanes[run.request.key]

    def left_of(self, run_id: str) -> Iterator[Run]:
        """Yield what has not ended of a run's tree, the youngest first: none gets its turn because another has left."""
        run = self._runs[run_id]
        for child in reversed(run.children):
            if child in self._runs and self._runs[child].request.attached:
                yield from self.left_of(child)
        if run.state not in ("ended", "finished"):
            yield run

    # --- asking

    def waiting(self, key: str, count: int, most: int, *, newest: bool) -> list[tuple[str, str, float, str]]:
        """Return (run, id, start, Box wire) of runs that wait in a lane, oldest first."""
        lane = self._waiting.get(key, ())
        found = []
        for run_id in islice(reversed(lane) if newest else lane, count):
            run = self._runs[run_id]
            most -= utf8_length(run.box)
            found.append((run_id, run.request.id, run.started, run.box if most >= 0 else ""))
        return found[::-1] if newest else found

    def report(self, pattern: str, limit: int) -> LaneReport:
        """Return what is known of the lanes whose key matches."""
        collecting: dict[str, int] = {}
        for (*_, key, _), run_id in self._bursts.items():
            collecting[key] = collecting.get(key, 0) + (self._runs[run_id].state == "delayed")
        keys = [key for key in {**self._holders, **collecting} if fnmatchcase(key, pattern)]
        found = [self._info(key, collecting.get(key, 0)) for key in keys]
        return LaneReport(tuple(sorted(found, key=lambda one: (-one.waiting, one.key))[:limit]), dict(self.totals))

    def _info(self, key: str, collecting: int) -> LaneInfo:
        run, since = self._holders.get(key, ("", 0.0))
        waiting = self._waiting.get(key, ())
        oldest = self._world.clock.now() - self._runs[waiting[0]].started if waiting else 0.0
        return LaneInfo(key, run, since, len(waiting), oldest, collecting)

    def _now(self) -> float:
        return self._world.clock.monotonic()


class LanePort:
    """The lanes' part of `InMemoryTransport`."""

    _changed: threading.Condition
    _lanes: Lanes

    def lane_holder(self, key: str) -> str:
        """Return the run whose tree is served in a lane, "" when none is."""
        with self._changed:
            return self._lanes.holder(key)

    def lanes(self, pattern: str = "*", limit: int = 1000) -> LaneReport:
        """Return the lanes that are not idle and whose key matches, and the totals of all."""
        with self._changed:
            return self._lanes.report(pattern, limit)

    def waiting(self, key: str, count: int, most: int, *, newest: bool) -> list[tuple[str, str, float, str]]:
        """Return (run, id, start, Box wire) of runs that wait in a lane, oldest first."""
        with self._changed:
            return self._lanes.waiting(key, count, most, newest=newest)

    def limit(self, name: str, rate: Rate) -> Verdict:
        """Count one more under `name` if `rate` allows it now."""
        with self._changed:
            return self._lanes.limit(name, rate)


def _burst(request: RunRequest) -> tuple[str, str, str, bool]:
    return request.flow, request.id, request.key, request.hold


def _queue(lane: deque[str], run: Run, returning: Callable[[str], bool]) -> None:
    """Put a run into a queue: at the end, or, when it had its turn before, in front of all that had not."""
    place = next((at for at, id in enumerate(lane) if not returning(id)), len(lane)) if run.returning else len(lane)
    lane.insert(place, run.request.run_id)
