"""An isolated plugin that hangs, leaks, exits, crashes and forks, beside a chat that goes on: real processes.

The tests share one bot, and follow one another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

import lumia
from lumia.dead import DeadFilter, DeadLetter
from lumia.runtime import Runtime
from tests.support import servers
from tests.support.isolated import isolated
from tests.support.wait import until
from tests.support.workers import Celery, bot_root, opened, worker
from tests.tasks.test_hot_reload import Machine

pytestmark = pytest.mark.services

RISKY = """
import ctypes
import os
import subprocess
import sys
import time

import lumia

once = lumia.Retry(attempts=1)
twice = lumia.Retry(attempts=2, backoff=0.01)


@lumia.pipe.on("fine", priv=2)
def fine(content: lumia.Box[int]) -> None:
    lumia.store.set("pid", os.getpid())
    lumia.utils.next(lumia.Box.any(content.into() + {version}))


@lumia.pipe.on("hangs", retry=once, timeout=1.0)
def hangs(content: lumia.Box) -> None:
    ctypes.PyDLL(None).sleep(600)  # with the interpreter lock held


@lumia.pipe.on("leaks", retry=once)
def leaks(content: lumia.Box) -> None:
    kept = []
    while True:
        kept.append(b"x" * (8 << 20))
        time.sleep(0.01)


@lumia.pipe.on("grabs", retry=once)
def grabs(content: lumia.Box) -> None:
    bytearray(1 << 40)


@lumia.pipe.on("exits", retry=twice)
def exits(content: lumia.Box) -> None:
    os._exit(7)


@lumia.pipe.on("crashes", retry=once)
def crashes(content: lumia.Box) -> None:
    ctypes.string_at(0)


@lumia.pipe.on("forks", retry=once)
def forks(content: lumia.Box) -> None:
    lumia.store.append("forks", 1)
    os.fork()


@lumia.pipe.on("swarms", retry=once)
def swarms(content: lumia.Box) -> None:
    while True:
        if os.fork() == 0:
            time.sleep(600)


@lumia.pipe.on("sends away", retry=once)
def sends_away(content: lumia.Box) -> None:
    code = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(600)"
    subprocess.run([sys.executable, "-c", code, content.into()], check=True)
"""

CHAT = """
import lumia


@lumia.pipe.on("chat")
def chat(content: lumia.Box) -> None:
    lumia.store.set("answered", content.into())


@lumia.pipe.on("fine", priv=1)
def after(content: lumia.Box[int]) -> None:
    lumia.store.set("got", content.into())
"""


LIMITS = {"memory_mb": 256, "seconds": 20, "concurrency": 2}


@dataclass
class Running:
    """A bot with one worker for everything and one for the isolated plugin."""

    machine: Machine
    bot: Runtime
    main: Celery
    apart: Celery

    def start(self, id: str, content: Any) -> str:
        with self.bot.activated():
            return lumia.pipe.start(id, lumia.Box.any(content))

    def stored(self, key: str) -> Any:
        text = self.bot.transport.read(key)[1]
        return json.loads(text) if text else None

    def letter(self, run_id: str) -> DeadLetter:
        wanted = DeadFilter(letters=(run_id,))
        return until(lambda: self.bot.transport.dead(wanted), timeout=60, what=f"a letter of {run_id}")[0]

    def done(self, run_id: str) -> bool:
        run = self.bot.transport.run(run_id)
        return run is not None and run.outcome == "done"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("isolated")
    machine = Machine(bot_root(folder / "bot"))
    machine.write("risky", 1, RISKY, isolation="process", limits=LIMITS)
    machine.write("chatty", 1, CHAT)
    with (
        servers.valkey(folder / "valkey") as server,
        worker(machine.root, server.url) as main,
        isolated(machine.root, server.url, "risky") as apart,
        opened(machine.root, server.url) as bot,
    ):
        yield Running(machine, bot, main, apart)


FAULTS = {
    "hangs": "risky.hangs took longer than its 1 s, and its process was ended",
    "leaks": "risky.leaks was ended: its process used ",
    "grabs": "MemoryError",
    "exits": "risky.exits ended its process with exit code 7",
    "crashes": "risky.crashes killed its process (SIGSEGV)",
    "swarms": "risky.swarms was ended: its process had ",
}


def test_whatever_it_does_the_chat_goes_on_and_each_step_ends_as_a_dead_letter_that_says_why(running: Running) -> None:
    runs = {fault: running.start(fault, 1) for fault in FAULTS}
    for answered, (fault, why) in enumerate(FAULTS.items(), 1):
        asked = running.start("chat", answered)
        until(lambda run=asked: running.done(run), timeout=20, what="the chat to go on")  # type: ignore[misc]
        letter = running.letter(runs[fault])
        assert letter.error.startswith(why), fault
        assert letter.attempts == (2 if fault == "exits" else 1), fault
    assert running.main.process.poll() is None and running.apart.process.poll() is None


def test_a_process_that_was_replaced_works_like_the_first_one_and_what_follows_goes_its_usual_way(
    running: Running,
) -> None:
    running.start("fine", 41)
    until(lambda: running.stored("chatty//got") == 42, timeout=20)
    assert psutil.Process(running.stored("risky//pid")).ppid() == running.apart.process.pid


def test_a_copy_of_the_process_that_comes_back_from_a_handler_commits_nothing(running: Running) -> None:
    run_id = running.start("forks", 1)
    until(lambda: running.done(run_id), timeout=20)
    assert running.bot.transport.read("risky//forks") == ("list", ["1"])


def test_what_leaves_its_session_does_not_get_away(running: Running) -> None:
    running.start("sends away", "")
    until(lambda: "left behind by a process of the plugin" in running.apart.text, timeout=20)


def test_it_is_exchanged_while_it_runs_like_any_other_plugin(running: Running) -> None:
    running.machine.write("risky", 2, RISKY, isolation="process", limits=LIMITS)
    with running.bot.activated():
        outcome = running.machine.deploy(running.bot, wait=60.0)
    assert outcome.ok and outcome.processes == 2, (outcome, running.main.text, running.apart.text)
    running.start("fine", 41)
    until(lambda: running.stored("chatty//got") == 43, timeout=20)


def test_its_processes_end_with_their_worker(running: Running) -> None:
    below = psutil.Process(running.apart.process.pid).children(recursive=True)
    assert below
    running.apart.kill()
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive
