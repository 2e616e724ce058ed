"""The profile's arithmetic."""

from __future__ import annotations

import cProfile
import json
import pstats
from pathlib import Path

import pytest

from bench import profile
from tasks.scripts import NAMES


def test_a_functions_time_includes_the_c_functions_it_calls() -> None:
    recorder = cProfile.Profile()
    recorder.runcall(json.dumps, list(range(200_000)))
    stats = pstats.Stats(recorder)
    busy = profile.busy(stats)
    total = sum(row[2] for row in stats.stats.values())  # type: ignore[attr-defined]
    assert sum(busy.values()) == pytest.approx(total, rel=0.05)
    assert {profile.group_of(function) for function in busy if function[0].endswith("encoder.py")} == {"json"}


@pytest.mark.parametrize(
    "file, group",
    [
        ("/x/lumia/executor.py", "lumia.executor"),
        ("/x/tasks/wire.py", "tasks.wire"),
        ("/x/site-packages/celery/app/trace.py", "celery"),
        ("/x/site-packages/redis/client.py", "redis client"),
        ("/usr/lib/python3.11/threading.py", "python: threading"),
        ("~", ""),
    ],
)
def test_functions_are_grouped_by_what_they_belong_to(file: str, group: str) -> None:
    assert profile.group_of((file, 1, "f")) == group


def test_a_slow_log_of_every_call_tells_the_time_of_each_script() -> None:
    names = {name: sha for sha, name in profile.shas().items()}
    assert set(names) == set(NAMES)
    log = [{"command": f"EVALSHA {names['commit']} 0 lumia:".encode(), "duration": 100}] * 4
    log += [
        {"command": f"EVALSHA {names['claim']} 0 lumia:".encode(), "duration": 60},
        {"command": b"GET x", "duration": 9},
    ]
    assert profile.by_script(log, messages=2) == {"commit": (2.0, 200.0), "claim": (0.5, 30.0)}


def test_commands_are_counted_per_message_and_ranked_by_time() -> None:
    found = profile.by_command({"cmdstat_get": {"calls": 4, "usec": 8}, "cmdstat_hset": {"calls": 2, "usec": 20}}, 2)
    assert list(found.items()) == [("hset", (1.0, 10.0)), ("get", (2.0, 4.0))]


@pytest.mark.services
def test_a_profile_explains_worker_and_valkey(tmp_path: Path) -> None:
    found = profile.measure(tmp_path, 40, 10, fused=True, events=True)
    assert found.rate > 0 and found.worker_us > 0
    assert 0.9 <= found.scripts["commit"][0] <= 4.5, "four stages: one commit once they are known as quick, four before"
    assert sum(found.groups.values()) == pytest.approx(found.worker_us, rel=0.01)
    assert "lumia.executor" in found.groups and "celery" in found.groups
    assert "Valkey by script" in profile.show(found, 5)
