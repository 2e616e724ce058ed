"""A tiny campaign with real processes, and what the command line says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench.chaos.__main__ import main
from lumia.paths import base
from tests.support.wait import until


def campaign(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "bench.chaos", "--peer", "no", "--folder", str(folder), *words]


def is_alive(child: psutil.Process) -> bool:
    """Tell whether a process still does something; one that has ended may stay a while for its new parent to notice."""
    try:
        return child.is_running() and child.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.services
def test_a_tiny_campaign_kills_a_worker_and_accounts_for_every_message(tmp_path: Path) -> None:
    results = tmp_path / "chaos.json"
    words = ["--seconds", "11", "--seed", "3", "--rate", "30", "--workers", "2", "--only", "kill-worker"]
    command = campaign(tmp_path / "kept", *words, "--results", str(results))
    done = subprocess.run(command, cwd=base(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("seed 3: python -m bench.chaos --seconds 11 --seed 3 --only 'kill-worker'")
    found = json.loads(results.read_text())
    lumia = found["sites"]["lumia"]
    assert lumia["ok"] and lumia["violations"] == {} and lumia["injected"] == {"kill-worker": 1}
    assert lumia["figures"]["accepted"] == lumia["figures"]["committed"] > 100
    assert found["conditions"]["seed"] == 3 and found["machine"]["cores"] == os.cpu_count()


@pytest.mark.timeout(300)
@pytest.mark.services
def test_ctrl_c_ends_everything_it_has_started(tmp_path: Path) -> None:
    command = campaign(tmp_path / "kept", "--seconds", "60", "--seed", "1", "--only", "hung")
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(command, cwd=base(), stdout=out, stderr=out)
        log = tmp_path / "kept" / "lumia" / "logs" / "gateway.log"
        until(log.exists, timeout=100, what="the campaign has started its gateway")
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=150) == 130
    assert started
    until(lambda: not any(map(is_alive, started)), timeout=60, what="all have ended")


def test_the_command_names_a_fault_it_does_not_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "kill-everyone"]) == 2
    assert "no fault is called 'kill-everyone'; there are kill-worker" in capsys.readouterr().err


def test_the_command_lists_the_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "kill-b*"]) == 0
    assert capsys.readouterr().out.split() == ["kill-beat", "kill-broker"]
