"""What every executing process does beside executing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lumia.blobs import Blobs
from lumia.box import Box
from lumia.dead import DeadLetter
from lumia.errors import BackendUnavailableError
from lumia.executor import StepListener
from lumia.inmemory import InMemoryTransport
from lumia.ports import Claim, Limits
from lumia.routes import Plan
from lumia.runtime import Runtime
from tasks import keeper as keeper_module
from tasks.keeper import Keeper
from tasks.transport import RedisTransport, connect
from tasks.watch import MARGIN_SECONDS, Watch
from tests.support.wait import until
from tests.tasks.test_scripts import STEPS, request

PLAN = Plan.of([STEPS[0]])
CLAIM = Claim("run", 0, 1, 1, "pipe", "msg", "", "run", "", 3, PLAN, "")


class Hung(Watch):
    """A watch over threads of which some hang."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = list(names)

    def hung(self) -> list[str]:
        return self.names


@pytest.fixture
def make(valkey_url: str, tmp_path: Path) -> Iterator[Callable[..., Keeper]]:
    made: list[RedisTransport] = []

    def keeper(refresh: Callable[[], None] = lambda: None, watch: Watch | None = None, slots: int = 4) -> Keeper:
        transport = RedisTransport(connect(valkey_url), worker="host:1:aa")
        made.append(transport)
        bot = Runtime(tmp_path, tmp_path, InMemoryTransport(), b"", blobs=Blobs(tmp_path / "blobs"))
        return Keeper(bot, transport, refresh, watch or Watch(), slots)

    yield keeper
    for transport in made:
        transport.close()


def failing() -> None:
    raise BackendUnavailableError("no worker has published its handlers yet")


def test_a_duty_that_fails_keeps_none_of_the_others_from_being_done(
    make: Callable[..., Keeper], valkey_url: str
) -> None:
    transport = RedisTransport(connect(valkey_url), worker="host:2:bb")
    run = transport.start([request(delay=0.01)])[0].run_id
    keeper = make(failing)
    until(lambda: keeper._turn() and transport.run(run).state == "queued")  # type: ignore[union-attr]
    transport.close()


def test_a_process_whose_slots_hang_leaves_to_be_replaced(
    make: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr("tasks.keeper.leave_to_be_replaced", lambda: sent.append(signal.SIGTERM))
    make(watch=Hung("one"), slots=4)._turn()
    assert sent == []
    make(watch=Hung("one"), slots=1)._turn()
    assert sent == [signal.SIGTERM]


def test_steps_that_wait_for_their_commit_while_redis_is_away_do_not_hang(
    make: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr("tasks.keeper.leave_to_be_replaced", lambda: sent.append(signal.SIGTERM))
    monkeypatch.setattr(keeper_module, "BEAT_SECONDS", 0.0)
    keeper = make(failing, watch=Hung("one", "two", "three", "four"))
    keeper._turn()
    assert sent == []


def test_each_step_is_watched_by_its_own_limit() -> None:
    watch, limits = Watch(), Limits()
    brief, long = replace(STEPS[0], timeout=-2 * MARGIN_SECONDS), replace(STEPS[0], timeout=60.0)
    with watch.over(StepListener(), limits) as listener:
        listener.started(CLAIM, brief)
        assert watch.hung() == ["p.s0 in run run"]
        listener.ended(CLAIM, brief, "done", "", 0.0)
        listener.started(CLAIM, long)
        assert watch.hung() == []
        listener.started(CLAIM, brief)
    assert watch.hung() == []


def test_of_many_processes_one_looks_for_what_was_lost(
    make: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch, valkey_url: str
) -> None:
    redis = connect(valkey_url)
    redis.delete("lumia:reaper")
    reaped: list[float] = []
    monkeypatch.setattr("tasks.keeper.reap", lambda transport, log, grace: reaped.append(grace))
    for keeper in [make() for _ in range(5)]:
        keeper.reap()
    assert len(reaped) == 1 and 0 < redis.pttl("lumia:reaper") <= keeper_module.REAP_SECONDS * 1000
    redis.delete("lumia:reaper")
    make().reap()
    assert len(reaped) == 2
    redis.close()


def test_blobs_of_dead_letters_are_kept_and_one_process_of_a_machine_collects(
    make: Callable[..., Keeper], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = make(), make()
    blobs = Blobs(tmp_path / "blobs", keep=60)
    one._bot.blobs = other._bot.blobs = blobs
    needed, gone = blobs.put(b"needed", "text/plain"), blobs.put(b"gone", "text/plain")
    box = Box.any({"media": [{"kind": "file", "blob": needed.as_dict()}]}).dump(b"")
    letter = DeadLetter("r", 0, "a.b", "msg", "", "no", 1, box, 0.0)
    for keeper in (one, other):
        monkeypatch.setattr(keeper._transport, "dead", lambda wanted: [letter])
    for ref in (needed, gone):
        os.utime(blobs.path(ref.digest), (1000, 1000))
    monkeypatch.setattr(other, "collect", lambda: pytest.fail("the other one has just collected"))
    one._collect()
    other._collect()
    until(lambda: not blobs.holds(gone))
    assert blobs.holds(needed)
