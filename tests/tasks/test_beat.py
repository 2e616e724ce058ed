"""Schedules: due times, missed ones, and two beats that fire each tick once."""

from __future__ import annotations

import itertools
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.routes import Schedule
from lumia.runtime import Runtime
from tasks.beat import chosen, due_times, next_time
from tasks.transport import RedisTransport
from tests.support.wait import until
from tests.support.workers import bot_root, celery, worker, write_plugin

CODE = """
import lumia


@lumia.cron("* * * * * *")
def every_second(content: lumia.Box) -> None:
    lumia.store.append("due", content.into()["due"], keep=1000)


@lumia.event.consumer("bus.adapters.probe.find_active")
def find_active(content: lumia.Box) -> None:
    lumia.system.adapters.heartbeat(content.into(), "probe-2.0")
    lumia.store.incr("asked")


def on_load() -> None:
    lumia.system.adapters.reg("probe-1", "probe-2.0")
"""


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_due_times_follow_the_expression_in_its_zone() -> None:
    daily = Schedule("x", "30 8 * * *", tz="Europe/Berlin")
    found = list(due_times(daily, moment("2026-03-27T00:00"), moment("2026-03-31T00:00")))
    assert [datetime.fromtimestamp(due, UTC).isoformat()[5:16] for due in found] == [
        "03-27T07:30", "03-28T07:30", "03-29T06:30", "03-30T06:30",
    ]  # fmt: skip
    assert next_time(daily, moment("2026-03-28T08:00")) == moment("2026-03-29T06:30")


@pytest.mark.parametrize("missed, expected", [("skip", []), ("once", [300.0]), ("all", [100.0, 200.0, 300.0])])
def test_missed_runs_follow_the_declared_policy(missed: str, expected: list[float]) -> None:
    schedule = Schedule("x", "* * * * *", missed=missed)
    assert chosen(schedule, [100.0, 200.0, 300.0], now=1000.0) == expected


def test_a_tick_that_was_just_reached_is_always_fired() -> None:
    for missed in ("skip", "once"):
        assert chosen(Schedule("x", "* * * * *", missed=missed), [100.0, 995.0], now=1000.0) == [995.0]


def redis_of(bot: Runtime) -> Any:
    assert isinstance(bot.transport, RedisTransport)
    return bot.transport.redis


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = bot_root(tmp_path / "bot")
    write_plugin(folder, "clockwork", CODE)
    return folder


def test_two_beats_fire_a_tick_once_and_one_goes_on_when_the_other_dies(bot: Runtime, root: Path, url: str) -> None:
    store = lumia.store.of("clockwork")
    with worker(root, url), celery(root, url, "beat", name="one") as one, celery(root, url, "beat", name="two"):
        until(lambda: len(store.items("due")) >= 4, timeout=30)
        one.kill()
        before = len(store.items("due"))
        until(lambda: len(store.items("due")) >= before + 3, timeout=30)
    due = store.items("due")
    assert len(due) == len(set(due)), "a tick was fired twice"
    assert sorted(due) == due
    assert all(later - earlier == 1.0 for earlier, later in itertools.pairwise(due)), due


def test_a_clock_that_was_set_back_does_not_silence_the_schedules(bot: Runtime, root: Path, url: str) -> None:
    redis_of(bot).hset("lumia:cron", "cron.at.clockwork.every_second", repr(time.time() + 86400))
    with worker(root, url), celery(root, url, "beat", name="beat"):
        until(lambda: lumia.store.of("clockwork").items("due"), timeout=30)


def test_adapters_are_asked_whether_they_are_alive(bot: Runtime, root: Path, url: str) -> None:
    with worker(root, url), celery(root, url, "beat", name="beat"):
        until(lambda: lumia.store.of("clockwork").get("asked", 0) >= 1, timeout=45)
        adapter = lumia.system.adapters.list()[0]
        assert (adapter.id, adapter.version, adapter.platform) == ("probe-1", "probe-2.0", "probe")
