"""Whole measurements, small: Lumia alone, on a real Valkey with real workers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from redis import Redis

from bench import __main__ as command
from bench import comparison, contenders, handlers, lanes, memory, session
from bench.processes import BenchError
from tests.support.servers import Server

pytestmark = pytest.mark.services


def test_a_quick_comparison_prints_and_writes_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contenders, "ALL", contenders.ALL[:1])
    monkeypatch.setattr(session, "WARM", 10)
    monkeypatch.setattr(comparison, "QUICK", replace(comparison.QUICK, messages=40, seconds=0.4))
    command.main(["--quick", "--only", "throughput,latency", "--peers", "none", "--results", str(tmp_path)])
    found = json.loads((tmp_path / "latest.json").read_text())
    (ours,) = found["contenders"]
    assert ours["rate"]["median"] > 0
    assert 200 < ours["in_flight"]["median"] < 10_000
    assert [one["samples"]["median"] > 0 for one in ours["latency"].values()] == [True, True]
    assert set(found["versions"]["lumia"]) >= {"celery", "kombu", "redis"}
    assert "accept → last commit at 50/s, p99" in capsys.readouterr().out


def test_a_message_that_is_done_twice_makes_the_figure_void(
    valkey_server: Server, valkey_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = contenders.chosen(["none"])[0]
    monkeypatch.setattr(session, "WARM", 10)
    monkeypatch.setattr(session, "_drain", lambda contender, redis, *rest: redis.set(contender.done, 10**6))
    plan = session.Plan(5, 5, 0.1, latency=False)
    with pytest.raises(BenchError, match=r"lumia: 15 messages were sent, 1\d+ were done"):
        session.run(ours, valkey_server, tmp_path, plan)


def test_handlers_lanes_and_memory_are_measured(valkey_server: Server, valkey_url: str, tmp_path: Path) -> None:
    few, many = handlers.measure(valkey_server, tmp_path, (10, 60), 1, 20)
    assert (few.handlers, len(few.work), few.work[0] > 0) == (10, 1, True)
    assert many.as_dict()["lookup"]["median"] > 0
    sizes = lanes.measure(valkey_server, tmp_path, (1, 300), 1, 20)
    assert [size.keys for size in sizes] == [0, 0]
    found = memory.measure(valkey_server, tmp_path, 200)
    assert 200 < found.in_lanes < 5000 and found.archived < 0.7 * found.finished
    Redis.from_url(valkey_url).flushall()
