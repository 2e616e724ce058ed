"""`lumia up`, `status`, `worker` and `down` as an operator types them, over the real bot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tasks.supervise import client
from tasks.supervise.folders import Folders
from tasks.supervise.identity import start_mark
from tasks.supervise.lock import holder
from tasks.supervise.ports import is_free
from tests.support.wait import until

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(240)]

PROJECT = Path(__file__).resolve().parents[2]

EACH = """
import contextlib, io, json, sys
from lumia.cli import main
done = []
for line in json.loads(sys.stdin.read()):
    out, sys.argv = io.StringIO(), ["lumia", *line.split()]
    with contextlib.redirect_stdout(out):
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
    done.append([code, out.getvalue()])
print(json.dumps(done))
"""


class Bot:
    """A bot root and the commands in it."""

    def __init__(self, root: Path, port: int) -> None:
        self.root, self.port = root, port
        self.env = {**os.environ, "LUMIA_ROOT": str(root), "COLUMNS": "100"}

    def lumia(self, *words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        command = [sys.executable, "-m", "lumia", *words]
        return subprocess.run(
            command, cwd=PROJECT, env=self.env, capture_output=True, text=True, timeout=timeout, check=False
        )

    def each(self, lines: list[str]) -> list[tuple[int, str]]:
        """Run commands one after the other in one process of their own; returns the exit code and stdout of each."""
        command = [sys.executable, "-c", EACH]
        done = subprocess.run(
            command, cwd=PROJECT, env=self.env, input=json.dumps(lines), capture_output=True, text=True, check=True
        )
        return [(code, out) for code, out in json.loads(done.stdout)]

    def up(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Start it in the background."""
        return self.lumia("up", "--detach", "--port", str(self.port), *words)

    def status(self) -> dict[str, Any]:
        """Return what `lumia status --json` prints."""
        found: dict[str, Any] = json.loads(self.lumia("status", "--json").stdout)
        return found

    def state(self, name: str) -> tuple[str, int]:
        """Return the state and the pid of a service as the supervisor notes them: for waits, without a process each."""
        services = client.status(self.root).services
        return next(((one.state, one.pid or 0) for one in services if one.name == name), ("", 0))

    @property
    def ready(self) -> bool:
        """Tell whether every essential service answers and `lumia up` has said so, likewise."""
        state = client.status(self.root)
        return state.ready and state.announced

    def processes(self) -> list[int]:
        """Return every process that belongs to this root, however it got there."""
        mine = []
        for process in psutil.process_iter():
            try:
                where = process.environ().get("LUMIA_ROOT") == str(self.root) or str(self.root) in process.cmdline()
            except psutil.Error:
                continue
            if where and process.pid != os.getpid() and start_mark(process.pid):
                mine.append(process.pid)
        return mine


@pytest.fixture
def bot(bot_root: Path) -> Iterator[Bot]:
    # Test processes run side by side; each has ports of its own.
    beside = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 21000 + 3500 * beside
    free = (port for port in range(first, first + 3500, 7) if all(is_free("127.0.0.1", port + n) for n in range(4)))
    found = Bot(bot_root, next(free))
    yield found
    if Folders(bot_root).run.exists():
        found.lumia("down", "--timeout", "20")


def test_a_bot_goes_up_shows_itself_survives_a_kill_and_goes_down_without_a_trace(bot: Bot) -> None:
    started = bot.up()
    assert started.returncode == 0, started.stderr
    assert f"http://127.0.0.1:{bot.port}/" in started.stdout
    assert "offline model" in started.stderr

    shown = bot.status()
    assert shown["ready"] is True
    assert [one["name"] for one in shown["services"]] == ["valkey", "postgres", "worker", "beat", "gateway", "flower"]
    assert {tuple(one) for one in shown["services"]} == {("name", "pid", "state", "url")}
    assert {one["state"] for one in shown["services"]} == {"ready"}
    assert bot.lumia("status").returncode == 0

    twin = bot.up()
    assert twin.returncode == 1
    assert "already up" in twin.stderr

    first = next(int(one["pid"]) for one in shown["services"] if one["name"] == "worker")
    os.kill(first, signal.SIGKILL)
    until(lambda: bot.state("worker")[1] not in (0, first) and bot.ready, timeout=60, what="the worker is back")
    assert bot.status()["ready"] is True

    added = bot.lumia("worker", "add", "--queues", "heavy", "--name", "heavy")
    assert added.returncode == 0, added.stderr
    until(lambda: bot.state("heavy")[0] == "ready", timeout=60, what="the added worker is ready")
    assert "heavy\tready" in bot.lumia("worker", "list").stdout
    assert bot.lumia("worker", "remove", "heavy").stdout == "heavy has drained\n"

    assert bot.lumia("down").returncode == 0
    assert bot.processes() == []
    assert [file for file in Folders(bot.root).run.rglob("*") if file.is_file()] == []
    assert bot.lumia("status").returncode == 1
    assert bot.lumia("down").returncode == 0


def test_a_bot_whose_supervisor_was_killed_leaves_nothing_and_starts_again(bot: Bot) -> None:
    assert bot.up("--no-flower", "--no-postgres").returncode == 0
    supervisor = int(Folders(bot.root).lock.read_text())
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: bot.processes() == [], timeout=30, what="no orphan is left")
    assert bot.up("--no-flower", "--no-postgres").returncode == 0
    assert bot.status()["ready"] is True


def test_ctrl_c_in_the_foreground_drains_and_ends(bot: Bot) -> None:
    command = [sys.executable, "-m", "lumia", "up", "--port", str(bot.port), "--no-flower"]
    process = subprocess.Popen(
        command,
        cwd=PROJECT,
        env=bot.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: bot.ready or process.poll() is not None, timeout=60, what="ready")
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "worker has ended" in said
    assert "valkey has ended" in said.splitlines()[-2]
    assert bot.processes() == []


def test_a_taken_port_is_one_line_and_exit_code_1(bot: Bot) -> None:
    with socket.create_server(("127.0.0.1", bot.port)):
        failed = bot.up()
    assert failed.returncode == 1
    error = failed.stderr.strip().splitlines()[-1]
    assert f"port {bot.port} is taken by" in error
    assert "[gateway] port" in error
    assert bot.processes() == []


def test_wrong_usage_is_exit_code_2(bot: Bot) -> None:
    lines = ["up --nonsense", "worker remove", "up --port 70000", "up --port -5"]
    lines += ["worker add --pool zzz", "worker add --concurrency -3"]
    assert [(line, code) for line, (code, _) in zip(lines, bot.each(lines), strict=True) if code != 2] == []
    assert bot.lumia("up", "--nonsense").returncode == 2


def test_every_command_shows_an_example(bot: Bot) -> None:
    lines = ["up", "down", "status", "doctor", "worker", "worker add", "worker remove", "worker list"]
    for line, (code, shown) in zip(lines, bot.each([f"{line} --help" for line in lines]), strict=True):
        assert (code, f"Example: lumia {line}" in " ".join(shown.split())) == (0, True), line


def test_a_start_that_is_ended_by_down_says_so_in_one_line(bot: Bot) -> None:
    command = [sys.executable, "-m", "lumia", "up", "--detach", "--port", str(bot.port)]
    starting = subprocess.Popen(command, cwd=PROJECT, env=bot.env, stderr=subprocess.PIPE, text=True)
    until(lambda: Folders(bot.root).lock.exists() and holder(Folders(bot.root).lock) is not None, what="it starts")
    assert bot.lumia("down").returncode == 0
    _, said = starting.communicate(timeout=60)
    assert (starting.returncode, said.splitlines()[-1]) == (1, "error: ended by `lumia down` while starting")


def test_ctrl_c_while_starting_ends_with_130_and_no_traceback(bot: Bot) -> None:
    command = [sys.executable, "-m", "lumia", "up", "--port", str(bot.port)]
    starting = subprocess.Popen(command, cwd=PROJECT, env=bot.env, stderr=subprocess.PIPE, text=True)
    until(lambda: Folders(bot.root).lock.exists(), what="it starts")
    starting.send_signal(signal.SIGINT)
    _, said = starting.communicate(timeout=60)
    assert starting.returncode == 130
    assert "Traceback" not in said
    assert bot.processes() == []
