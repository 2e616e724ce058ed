"""Lanes in Redis: what only the scripts can show. The promises of both transports are in tests/conformance."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.lanes import LaneOptions, Rate
from tasks.transport import RedisTransport, connect
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import bot_root, opened, worker, write_plugin
from tests.tasks.test_scripts import claimed, done, popped, request

BURST = LaneOptions(collect=60.0)


def test_a_start_without_options_leaves_no_field_and_no_key_of_theirs(transport: RedisTransport) -> None:
    run = transport.start([request(key="k")])[0].run_id
    redis: Any = transport.redis
    fields = {name.decode() for name in redis.hkeys(f"lumia:r:{run}")}
    assert fields & {"lo", "ov", "J", "P", "Xc"} == set()
    assert {key.decode() for key in redis.keys("lumia:*")} & {"lumia:bursts", "lumia:rate"} == set()


def test_a_batch_serves_lanes_in_turn_however_long_one_of_them_is(transport: RedisTransport) -> None:
    for _ in range(1000):
        transport.start([request(key="long")])
    for n in range(3):
        transport.start([request(key=f"short {n}")])
    claim = claimed(transport)
    served: list[str] = []
    while len(served) < 8:
        served.append(claim.key)
        follower = transport.commit(claim, done(claim, "end", batch=True))
        assert follower is not None
        claim = follower
    assert served[:4] == ["long", "short 0", "short 1", "short 2"] and set(served[4:]) == {"long"}


def test_a_thousand_stale_runs_are_dropped_and_the_fresh_one_has_its_turn(transport: RedisTransport) -> None:
    old = LaneOptions(max_age=10.0)
    transport.start([request(key="k")])
    claim = claimed(transport)
    runs = [transport.start([request(key="k", lane=old)])[0].run_id for _ in range(1000)]
    fresh = transport.start([request(key="k")])[0].run_id
    for run in runs:
        transport.redis.hincrby(f"lumia:r:{run}", "b", -12_000)
    transport.commit(claim, done(claim, "end"))
    while (found := transport.claim(*popped(transport))) is None:
        pass
    assert found.run_id == fresh
    record = transport.run(runs[0])
    assert record is not None and record.outcome == "stopped"
    assert re.fullmatch(r"stale: waited 1\d(\.\d)? s, max_age 10 s", record.reason)
    assert transport.lanes().totals["stale"] == 1000
    transport.commit(found, done(found, "end"))
    assert transport.lanes().lanes == ()


def test_a_joined_message_that_is_sent_again_joins_once_with_and_without_a_dedup_text(
    transport: RedisTransport,
) -> None:
    first = transport.start([request(key="k", lane=BURST)])[0].run_id
    for extra in ({}, {"dedup": "webhook 7"}):
        second = request(key="k", lane=BURST, **extra)
        answers = [transport.start([second])[0] for _ in range(3)]
        assert [(one.run_id, one.joined) for one in answers] == [(first, True)] * 3
    copy = request(key="k", lane=BURST, dedup="webhook 7")
    answer = transport.start([copy])[0]
    assert (answer.run_id, answer.duplicate, answer.joined) == (first, True, False)
    assert transport.run(first).box == '{"c":[{"j":1},{"j":1},{"j":1}]}'  # type: ignore[union-attr]


def test_a_burst_never_grows_over_the_largest_box(transport: RedisTransport) -> None:
    big = '{"j":"' + "x" * 600_000 + '"}'
    first = transport.start([replace(request(key="k", lane=BURST), box=big)])[0]
    second = transport.start([replace(request(key="k", lane=BURST), box=big)])[0]
    assert not second.joined and second.run_id != first.run_id
    third = transport.start([request(key="k", lane=BURST)])[0]
    assert (third.run_id, third.joined) == (second.run_id, True)


def test_rates_are_counted_in_the_time_of_redis_over_all_processes_and_leave_nothing_when_idle(
    transport: RedisTransport,
) -> None:
    other = RedisTransport(connect_like(transport), worker="host:2:bb")
    rate = Rate(2, per=0.4, burst=2)
    assert [bool(one.limit("x", rate)) for one in (transport, other, transport)] == [True, True, False]
    assert 0 < transport.redis.pttl("lumia:rate:x") <= 401
    until(lambda: not transport.redis.exists("lumia:rate:x"))
    assert other.limit("x", rate).allowed
    other.close()


def connect_like(transport: RedisTransport) -> Any:
    found = transport.redis.connection_pool.connection_kwargs
    return connect(f"redis://127.0.0.1:{found['port']}/0")


def test_a_rate_and_a_cap_that_refuse_leave_nothing_of_any_run_of_the_start(transport: RedisTransport) -> None:
    transport.start([request(key="k")])
    before = {key for key in transport.redis.keys("*") if key != b"lumia:stats"}
    refused = request(key="k", lane=LaneOptions(cap=0), dedup="again", rate=Rate(1))
    for _ in range(2):
        with pytest.raises(lumia.errors.LaneFullError):
            transport.start([refused, request()])
    assert {key for key in transport.redis.keys("*") if key != b"lumia:stats"} == before


CODE = """
import lumia


@lumia.pipe.on("said")
def said(content: lumia.Box) -> None:
    lumia.store.append("said", content.into(), scope="all")
"""


@pytest.mark.slow
def test_a_burst_outlives_the_worker_that_would_have_moved_it(tmp_path: Path) -> None:
    root = bot_root(tmp_path / "bot")
    write_plugin(root, "talk", CODE)
    with servers.valkey(tmp_path / "valkey") as server, worker(root, server.url) as first, opened(root, server.url):
        runs = {lumia.pipe.start("said", lumia.Box.any(n), key="k", collect=2.0) for n in range(3)}
        first.kill()
        runs.add(lumia.pipe.start("said", lumia.Box.any(3), key="k", collect=2.0))
        assert len(runs) == 1
        with worker(root, server.url, name="second"):
            assert lumia.runs.wait(runs.pop(), timeout=30).outcome == "done"
        assert lumia.store.of("talk").items("said", scope="all") == [[0, 1, 2, 3]]
