"""`lumia lanes` and `lumia cancel` as an operator types them, on a real Valkey."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lumia.lanes import LaneOptions
from lumia.ports import Limits
from tasks.transport import RedisTransport, connect
from tests.support.workers import bot_root
from tests.tasks.test_scripts import PLAN, claimed, request


@pytest.fixture
def transport(valkey_server: Any) -> Iterator[RedisTransport]:
    redis = connect(valkey_server.url)
    redis.flushdb()
    found = RedisTransport(redis, worker="host:1:aa", limits=Limits())
    yield found
    found.close()


@pytest.fixture
def lumia(tmp_path: Path, valkey_server: Any) -> Any:
    env = {**os.environ, "LUMIA_ROOT": str(bot_root(tmp_path / "bot")), "LUMIA_REDIS_URL": valkey_server.url}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "lumia", *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_lanes_tells_who_runs_who_waits_and_what_has_become_of_others(transport: RedisTransport, lumia: Any) -> None:
    first = transport.start([request(key="qq:group-7")])[0].run_id
    for _ in range(3):
        transport.start([request(key="qq:group-7", lane=LaneOptions(cap=2, overflow="drop_newest"))])
    transport.start([request(key="qq:group-8", lane=LaneOptions(collect=60.0))])
    shown = json.loads(lumia("lanes", "--json").stdout)
    seven, eight = shown["lanes"]
    assert (seven["key"], seven["run"], seven["waiting"]) == ("qq:group-7", first, 2)
    assert (eight["key"], eight["run"], eight["collecting"]) == ("qq:group-8", "", 1)
    assert shown["totals"] == {"served": 0, "dropped": 1, "rejected": 0, "stale": 0, "collected": 0}
    table = lumia("lanes", "--group", "*group-7")
    assert first in table.stdout and "group-8" not in table.stdout
    assert "1 dropped" in table.stderr


def test_lanes_tells_what_waits_for_an_account_that_no_gateway_has(transport: RedisTransport, lumia: Any) -> None:
    plan = PLAN.on("adapter.onebot.10001")
    transport.start([replace(request(), plan=plan)])
    shown = json.loads(lumia("lanes", "--json").stdout)
    assert [(one["name"], one["waiting"]) for one in shown["unserved"]] == [("adapter.onebot.10001", 1)]
    assert "adapter.onebot.10001: 1 waiting" in lumia("lanes").stderr


def test_cancel_ends_a_run_once_and_says_when_it_had_ended(transport: RedisTransport, lumia: Any) -> None:
    run = transport.start([request(key="k")])[0].run_id
    done = lumia("cancel", run, "--reason", "wrong group")
    assert (done.returncode, done.stderr.strip()) == (0, f"run {run}: cancelled")
    assert transport.run(run).reason == "wrong group"  # type: ignore[union-attr]
    again = lumia("cancel", run)
    assert again.returncode == 1 and "had ended before: cancelled" in again.stderr
    unknown = lumia("cancel", "01m7zv0k3q8r2s5t6v7w8x")
    assert unknown.returncode == 1 and "`lumia runs`" in unknown.stderr
    no_id = lumia("cancel", "nobody")
    assert no_id.returncode == 2 and "Invalid value for RUN" in no_id.stderr and "01m7zv0k3q" in no_id.stderr


def test_cancel_takes_the_beginning_of_an_id_that_fits_one_run(transport: RedisTransport, lumia: Any) -> None:
    first, second = (transport.start([request(key="k")])[0].run_id for _ in range(2))
    both = next(first[:end] for end in range(len(first), 0, -1) if second.startswith(first[:end]))
    several = lumia("cancel", both)
    assert several.returncode == 1 and first in several.stderr and second in several.stderr
    assert lumia("cancel", second[: len(both) + 1]).returncode == 0
    assert [transport.run(run).outcome for run in (first, second)] == ["", "cancelled"]  # type: ignore[union-attr]


def test_cancel_says_that_a_step_is_being_executed(transport: RedisTransport, lumia: Any) -> None:
    run = transport.start([request()])[0].run_id
    claimed(transport)
    assert "ends with the step" in lumia("cancel", run).stderr


def test_a_cancel_that_is_sent_again_after_a_lost_reply_answers_the_same(transport: RedisTransport) -> None:
    run = transport.start([request(key="k")])[0].run_id
    answers = [transport.call("cancel", run, "enough", "call 1", 60_000, 1000) for _ in range(2)]
    assert answers == [b"cancelled", b"cancelled"]
    assert transport.call("cancel", run, "enough", "call 2", 60_000, 1000) == b"ended"


def test_a_trace_tells_that_an_end_was_asked_for_while_its_step_still_runs(
    transport: RedisTransport, lumia: Any
) -> None:
    run = transport.start([request()])[0].run_id
    claimed(transport)
    lumia("cancel", run, "--reason", "wrong group")
    told = json.loads(lumia("trace", run, "--json").stdout)
    assert [(act["kind"], act["reason"]) for act in told["run"]["acts"]] == [("cancel", "wrong group")]
    assert "its end is asked for" in told["verdict"]
