"""Time, ids, chance and the registry of adapters."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import lumia
from lumia.system import AdapterInfo, adapters
from lumia.testing import Bot, ManualClock


@lumia.pipe.on("msg")
def nothing(content: lumia.Box[Any]) -> None:
    """Do nothing."""


def test_without_a_bot_the_machines_own_clock_is_asked() -> None:
    before = time.time(), time.monotonic()
    assert before[0] <= lumia.system.now() <= time.time()
    assert before[1] <= lumia.system.monotonic() <= time.monotonic()
    assert 0 <= lumia.system.random() < 1
    assert lumia.system.new_id() != lumia.system.new_id()


def test_forked_processes_make_ids_of_their_own() -> None:
    lumia.system.new_id()  # so that there is chance in store which a child would share
    reading, writing = os.pipe()
    for _ in range(2):
        if (child := os.fork()) == 0:
            os.write(writing, "".join(lumia.system.new_id()[10:] + "\n" for _ in range(100)).encode())
            os._exit(0)
        os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        found = [*told.read().split(), *(lumia.system.new_id()[10:] for _ in range(100))]
    assert len(found) == len(set(found)) == 300


def test_in_a_bot_time_and_chance_are_those_of_its_clock() -> None:
    def story(seed: int) -> list[Any]:
        with Bot(nothing, clock=ManualClock(start=1000.0, seed=seed)):
            return [lumia.system.now(), lumia.system.monotonic(), lumia.system.random(), lumia.system.new_id()]

    assert story(1) == story(1)
    assert story(1)[:2] == [1000.0, 0.0]
    assert story(1)[2:] != story(2)[2:]


def test_new_ids_sort_by_the_time_of_the_bot() -> None:
    with Bot(nothing, clock=(clock := ManualClock())):
        ids = []
        for _ in range(20):
            ids.append(lumia.system.new_id())
            clock.move(0.001)
        assert ids == sorted(ids)


def test_a_clock_that_is_set_back_measures_no_negative_time() -> None:
    clock = ManualClock()
    clock.move(10)
    clock.move(-3600)
    assert clock.monotonic() == 10
    clock.move(5)
    assert clock.monotonic() == 15


def test_adapters_are_registered_with_their_platform() -> None:
    with Bot(nothing, clock=(clock := ManualClock())):
        adapters.reg("qq-exp-1", "1.0.29")
        adapters.reg("napcat", "1.0", platform="qq", account="42")
        now = clock.now()
        assert adapters.list() == [
            AdapterInfo("napcat", "1.0", "qq", "42", now), AdapterInfo("qq-exp-1", "1.0.29", "qq", "", now),
        ]  # fmt: skip


def test_a_heartbeat_keeps_what_was_registered_and_notes_the_time() -> None:
    with Bot(nothing, clock=(clock := ManualClock())):
        adapters.reg("napcat", "1.0", platform="qq", account="42")
        clock.move(30)
        adapters.heartbeat("napcat", "1.1")
        assert adapters.list() == [AdapterInfo("napcat", "1.1", "qq", "42", clock.now())]


def test_a_heartbeat_of_an_unknown_adapter_registers_it() -> None:
    with Bot(nothing):
        adapters.heartbeat("telegram-bot", "2")
        (info,) = adapters.list()
        assert (info.id, info.platform, info.account) == ("telegram-bot", "telegram", "")


def test_adapters_registered_in_a_handler_are_known_after_its_commit() -> None:
    @lumia.event.interceptor("bus.adapters.qq.find_active", priv=100)
    def heartbeat(content: lumia.Box[Any]) -> None:
        lumia.system.adapters.heartbeat(str(content.into()), "napcat-adapter-qq-1.0.29")
        assert [info.id for info in lumia.system.adapters.list()] == ["qq-1"]

    with Bot(heartbeat) as bot:
        assert bot.event("bus.adapters.qq.find_active", "qq-1").outcome == "done"
        assert [info.version for info in adapters.list()] == ["napcat-adapter-qq-1.0.29"]


@pytest.mark.parametrize("wrong", ["", "a\x00", "\ud800", None, 5])
def test_an_adapters_id_is_text_that_can_be_stored(wrong: Any) -> None:
    with Bot(nothing):
        for use in (adapters.reg, adapters.heartbeat):
            with pytest.raises(lumia.errors.PayloadError, match="an adapter's id"):
                use(wrong, "1")
        assert adapters.list() == []
