"""The beat: fires schedules from the route table; any number of beats fire each tick once (DESIGN §6)."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from celery.beat import Scheduler
from croniter import croniter

from lumia.box import Box
from lumia.bus import PLANNED_AT_MOST
from lumia.errors import LumiaError, StaleRoutesError
from lumia.ids import fired_id
from lumia.ports import RunRequest
from lumia.routes import RouteTable, Schedule
from lumia.runtime import Runtime, open_bot
from lumia.system import adapters
from tasks.keys import BEAT
from tasks.transport import RedisTransport

REREAD_SECONDS = 5.0
FIND_ACTIVE_SECONDS = 30.0
MAX_CAUGHT_UP = 1000
MAX_SKEW_SECONDS = 60.0
"""How far another beat's clock may be ahead; a mark beyond it was left by a clock that has been set back since."""


def due_times(schedule: Schedule, after: float, until: float) -> Iterator[float]:
    """Yield the times of a schedule in (after, until], in seconds since 1970."""
    zone = ZoneInfo(schedule.tz)
    times = croniter(schedule.expression, datetime.fromtimestamp(after, zone), ret_type=datetime)
    for _ in range(MAX_CAUGHT_UP):
        due = times.get_next(datetime).timestamp()
        if due > until:
            return
        yield due


def next_time(schedule: Schedule, after: float) -> float:
    """Return the first time of a schedule after `after`."""
    start = datetime.fromtimestamp(after, ZoneInfo(schedule.tz))
    return float(croniter(schedule.expression, start, ret_type=datetime).get_next(datetime).timestamp())


def chosen(schedule: Schedule, due: list[float], now: float) -> list[float]:
    """Return which of the due times are fired: those just reached, and missed ones by the schedule's policy."""
    fresh = [moment for moment in due if now - moment <= 2 * REREAD_SECONDS]
    missed = [moment for moment in due if now - moment > 2 * REREAD_SECONDS]
    if schedule.missed == "all":
        return missed + fresh
    return fresh or (missed[-1:] if schedule.missed == "once" else [])


class LumiaScheduler(Scheduler):
    """Celery's beat with the route table as its schedule."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._bot: Runtime = open_bot(load="none")
        self._table: RouteTable | None = None
        self._read = 0.0
        super().__init__(*args, **kwargs)

    @property
    def _transport(self) -> RedisTransport:
        found = self._bot.transport
        assert isinstance(found, RedisTransport)
        return found

    def setup_schedule(self) -> None:
        """Nothing is kept in a file: what was fired is noted in Redis."""

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Fire what is due; returns the seconds until the next look."""
        try:
            with self._bot.activated():
                return self._tick()
        except LumiaError as error:
            self._bot.log.warning("beat: %s", error)
        except Exception:
            self._bot.log.exception("beat: a tick failed; the next one tries again")
        return 1.0

    def _tick(self) -> float:
        now = self._bot.clock.now()
        table = self._routes()
        self._transport.redis.set(self._transport.prefix + BEAT, json.dumps({"pid": os.getpid(), "at": now}), ex=60)
        if table is None:
            return 0.5
        for schedule in table.schedules:
            self._fire_due(schedule, now)
        self._find_active(now)
        nearest = min((next_time(schedule, now) for schedule in table.schedules), default=now + REREAD_SECONDS)
        return max(0.01, min(1.0, nearest - self._bot.clock.now()))

    def _routes(self) -> RouteTable | None:
        """Return the published route table; one that replaces it is seen at the next tick."""
        late = time.monotonic() - self._read > REREAD_SECONDS
        if self._table is None or late or self._transport.routes_number() != self._table.number:
            self._table = self._transport.routes()
            self._read = time.monotonic()
            if self._table is not None:
                self._bot.use_routes(self._table)
        return self._table

    def _fire_due(self, schedule: Schedule, now: float) -> None:
        marks = f"{self._transport.prefix}cron"
        noted = self._transport.redis.hget(marks, schedule.name)
        if noted is None or float(noted) > now + MAX_SKEW_SECONDS:
            self._transport.redis.hset(marks, schedule.name, repr(now))
            return
        due = list(due_times(schedule, float(noted), now))
        for moment in chosen(schedule, due, now):
            self._fire(schedule.name, fired_id(schedule.name, moment), {"schedule": schedule.name, "due": moment},
                       f"cron {schedule.name} {int(moment)}")  # fmt: skip
        if due:
            self._transport.redis.hset(marks, schedule.name, repr(due[-1]))

    def _find_active(self, now: float) -> None:
        moment = now - now % FIND_ACTIVE_SECONDS
        for info in adapters.list() if now - moment < REREAD_SECONDS else ():
            name = f"bus.adapters.{info.platform}.find_active"
            self._fire(name, fired_id(f"{name} {info.id}", moment), info.id, f"active {info.id} {int(moment)}")

    def _fire(self, id: str, run_id: str, content: Any, dedup: str) -> None:
        wire = Box.any(content).dump(self._bot.secret)
        for left in reversed(range(PLANNED_AT_MOST)):
            plan = self._bot.routes.plan("event", id)
            if not plan.steps:
                return
            request = RunRequest(run_id, "event", id, plan, wire, root_id=run_id, attached=False, dedup=dedup)
            try:
                self._transport.start([request], routes=self._bot.table.number)
                return
            except StaleRoutesError:
                if not left:
                    raise  # it isn't noted as fired, so the next tick tries again
                self._bot.refresh_routes()

    def close(self) -> None:
        """Release the bot."""
        self._bot.close()
