"""Worker processes of a measurement."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from bench.processes import BenchError, cpu_seconds, running, wait_until

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_workers_and_their_children_are_gone_after_the_block(tmp_path: Path) -> None:
    code = f"import signal, subprocess; signal.signal(15, lambda *_: None); subprocess.Popen({SLEEP!r}).wait()"
    with running([SLEEP], os.environ, tmp_path / "log") as group:
        pids = [process.pid for process in group.processes]
        assert all(psutil.pid_exists(pid) for pid in pids)
    assert code and not any(psutil.pid_exists(pid) for pid in pids)


def test_a_worker_that_ends_early_is_reported_with_its_log(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "raise SystemExit('no broker here')"]
    with running([command], os.environ, tmp_path / "log") as group, pytest.raises(BenchError, match="no broker here"):
        wait_until(lambda: False, 20, "nothing", group)


def test_what_did_not_happen_in_time_is_named() -> None:
    with pytest.raises(BenchError, match=r"not within 0\.01 s: the last message"):
        wait_until(lambda: False, 0.01, "the last message")


def test_cpu_time_is_that_of_a_process_and_of_its_children(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.5: pass\n"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {busy + 'time.sleep(60)'!r}]).wait()"
    with running([[sys.executable, "-c", code]], os.environ, tmp_path / "log") as group:
        wait_until(lambda: group.cpu() > 0.3, 20, "0.3 s of CPU time", group)
        parent = group.processes[0].pid
        for child in psutil.Process(parent).children():
            child.kill()
    assert cpu_seconds(parent) == 0.0
