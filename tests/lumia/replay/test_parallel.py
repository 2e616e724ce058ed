"""Many trees on several processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import Any

from lumia.paths import base
from tests.lumia.replay import forked


def fresh(name: str, jobs: int, count: int) -> Any:
    """Replay in a process of its own: this one has threads of other tests, and so forks none."""
    command = [sys.executable, "-m", "tests.lumia.replay.forked", name, str(jobs), str(count)]
    return json.loads(subprocess.run(command, cwd=base(), check=True, capture_output=True, timeout=60).stdout)


def test_every_tree_is_replayed_once_by_processes_of_their_own() -> None:
    told = fresh("where", jobs=3, count=9)
    assert told["replayed"] == told["recorded"]
    assert len(told["recorded"]) == 9
    assert len(told["processes"]) == 3
    assert told["parent"] not in told["processes"]


def test_a_handler_that_kills_its_process_is_an_error_that_names_the_way_out() -> None:
    assert "--jobs 1" in fresh("deadly", jobs=2, count=2)["error"]


def test_a_process_with_other_threads_is_not_forked() -> None:
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        told = forked.replayed("deadly", jobs=2, count=2)
    finally:
        end.set()
        other.join()
    assert told["replayed"] == told["recorded"]
