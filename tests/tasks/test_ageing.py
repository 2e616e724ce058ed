"""Messages that have waited too long behind more urgent ones: in the scripts, and under load with a real worker."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import lumia
from tasks.keeper import AGED_SHARE
from tasks.lists import lists
from tasks.transport import RedisTransport
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import bot_root, opened, worker, write_plugin
from tests.tasks.test_scripts import claimed, done, request

CODE = """
import time
import lumia


@lumia.pipe.on("busy")
def busy(content: lumia.Box) -> None:
    time.sleep(0.01)


@lumia.pipe.on("bulk")
def bulk(content: lumia.Box) -> None:
    lumia.store.incr("bulk")
"""


def age(transport: RedisTransport, limit: int = 0, share: int = AGED_SHARE) -> int:
    return int(transport.call("age", limit, share, "default"))


def test_the_oldest_messages_go_ahead_and_only_so_many(transport: RedisTransport) -> None:
    bulk = [transport.start([request(priority=9)])[0].run_id for _ in range(3)]
    low = [transport.start([request(priority=6)])[0].run_id for _ in range(3)]
    assert age(transport, limit=60_000) == 0
    for run in bulk:  # as if they had been pushed earlier than the others
        transport.redis.hincrby(f"lumia:r:{run}", "Q", -1000)
    assert age(transport) == AGED_SHARE and age(transport) == 0
    urgent = transport.start([request(priority=0)])[0].run_id
    claims = [claimed(transport, "default:-1") for _ in range(4)]
    assert [claim.run_id for claim in claims] == [*bulk, low[0]]
    assert [claim.priority for claim in claims] == [9, 9, 9, 6]
    assert claims[0].waited >= 1.0
    assert claimed(transport, "default").run_id == urgent


def test_a_batch_takes_an_aged_message_before_an_urgent_one(transport: RedisTransport) -> None:
    transport.start([request()])
    claim = claimed(transport)
    bulk = transport.start([request(priority=9)])[0].run_id
    transport.start([request(priority=0)])
    age(transport)
    follower = transport.commit(claim, done(claim, "end", batch=True))
    assert follower is not None and (follower.run_id, follower.priority) == (bulk, 9)


def test_a_message_that_went_ahead_and_vanished_is_pushed_again_and_no_healthy_one_is(
    transport: RedisTransport,
) -> None:
    names = lists(["default"])
    run = transport.start([request(priority=9)])[0].run_id
    transport.start([request(priority=0)])
    age(transport)
    assert [transport.call("reap", 5000, -1, 1000, 1000, *names)[2] for _ in range(2)] == [0, 0]
    transport.redis.rpop("default:-1")
    assert [transport.call("reap", 5000, -1, 1000, 1000, *names)[2] for _ in range(3)] == [0, 1, 0]
    assert claimed(transport, "default:-1").run_id == run


def test_a_message_that_went_ahead_can_be_cancelled_and_the_next_step_has_its_own_priority(
    transport: RedisTransport,
) -> None:
    first, second = (transport.start([request(priority=9)])[0].run_id for _ in range(2))
    age(transport)
    assert transport.cancel(first, "no longer wanted")
    assert transport.redis.zcard("lumia:queued:default:-1") == 1
    transport.redis.rpop("default:-1")  # the cancelled one's message, which any claim would drop
    claim = claimed(transport, "default:-1")
    transport.commit(claim, done(claim))
    assert claimed(transport, "default:9").run_id == second


def test_copies_too_many_and_foreign_messages_do_not_stop_the_ageing_of_others(transport: RedisTransport) -> None:
    cancelled = transport.start([request(priority=9)])[0].run_id
    transport.cancel(cancelled, "gone")
    wanted = transport.start([replace(request(priority=9), key="k")])[0].run_id
    transport.redis.rpush("default:6", '{"headers": {"task": "other"}}')
    assert age(transport) == 1
    assert claimed(transport, "default:-1").run_id == wanted
    assert transport.redis.llen("default:6") == 1


@pytest.mark.slow
def test_a_bulk_message_runs_within_the_ageing_limit_while_urgent_ones_keep_every_worker_busy(tmp_path: Path) -> None:
    root = bot_root(tmp_path / "bot", settings="ageing = 1.0\nbatch = 4")
    write_plugin(root, "load", CODE)
    with servers.valkey(tmp_path / "valkey") as server, worker(root, server.url), opened(root, server.url) as bot:
        queue, stop = "default", threading.Event()

        def saturate() -> None:
            with bot.activated():
                while not stop.is_set():
                    if bot.transport.redis.llen(queue) < 200:  # type: ignore[attr-defined]
                        for _ in range(50):
                            lumia.pipe.start("busy", lumia.Box.any(1), priority=0)

        thread = threading.Thread(target=saturate)
        thread.start()
        try:
            until(lambda: bot.transport.redis.llen(queue) >= 150, timeout=20)  # type: ignore[attr-defined]
            began = time.monotonic()
            run = lumia.pipe.start("bulk", lumia.Box.any(1), priority=9)
            result = lumia.runs.wait(run, timeout=20)
            took = time.monotonic() - began
            assert bot.transport.redis.llen(queue) > 0, "there was no load to wait behind"  # type: ignore[attr-defined]
        finally:
            stop.set()
            thread.join()
        assert result.outcome == "done" and 0.9 <= took < 6.0
