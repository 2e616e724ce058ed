"""An isolated plugin that hangs, leaks, exits, crashes and forks, beside a chat that goes on: real processes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

import lumia
from lumia.dead import DeadFilter, DeadLetter
from lumia.runtime import Runtime
from tests.support.isolated import isolated
from tests.support.wait import until
from tests.support.workers import bot_root, worker, write_plugin

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
    lumia.utils.next(lumia.Box.any(content.into() + 1))


@lumia.pipe.on("hangs", retry=once)
def hangs(content: lumia.Box) -> None:
    ctypes.PyDLL(None).sleep(600)  # with the interpreter lock held


@lumia.pipe.on("leaks", retry=once)
def leaks(content: lumia.Box) -> None:
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)))


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


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = bot_root(tmp_path_factory.mktemp("isolated") / "bot")
    limits = {"memory_mb": 256, "seconds": 1.5, "concurrency": 2}
    write_plugin(folder, "risky", RISKY, isolation="process", limits=limits)
    write_plugin(folder, "chatty", CHAT)
    return folder


def letter_of(bot: Runtime, run_id: str) -> DeadLetter:
    found = until(lambda: bot.transport.dead(DeadFilter(letters=(run_id,))), timeout=40, what=f"a letter of {run_id}")
    return found[0]


FAULTS = {
    "hangs": "risky.hangs took longer than its 1.5 s, and its process was ended",
    "leaks": "risky.leaks was ended: its process used ",
    "grabs": "MemoryError",
    "exits": "risky.exits ended its process with exit code 7",
    "crashes": "risky.crashes killed its process (SIGSEGV)",
    "swarms": "risky.swarms was ended: its process had ",
}


def test_whatever_the_plugin_does_the_chat_goes_on_and_each_step_ends_as_a_dead_letter_that_says_why(
    root: Path, url: str, bot: Runtime
) -> None:
    with worker(root, url) as main, isolated(root, url, "risky") as apart:
        runs = {fault: lumia.pipe.start(fault, lumia.Box.any(1)) for fault in FAULTS}
        for answered, (fault, why) in enumerate(FAULTS.items(), 1):
            lumia.pipe.start("chat", lumia.Box.any(answered))
            letter = letter_of(bot, runs[fault])
            assert letter.error.startswith(why), fault
            assert letter.attempts == (2 if fault == "exits" else 1), fault
            until(partial(is_stored, bot, "chatty//answered", answered), what="the chat to go on")
        assert main.process.poll() is None and apart.process.poll() is None

        # A process that was replaced works like the first one, and what follows goes its usual way.
        lumia.pipe.start("fine", lumia.Box.any(41))
        until(lambda: stored(bot, "chatty//got") == 42)
        inside = stored(bot, "risky//pid")
        assert psutil.Process(inside).ppid() == apart.process.pid

        # A copy of the process that comes back from a handler commits nothing.
        run_id = lumia.pipe.start("forks", lumia.Box.any(1))
        until(lambda: outcome(bot, run_id) == "done")
        assert bot.transport.read("risky//forks") == ("list", ["1"])

        # Nobody gets away: neither what left the process's session, nor what it still has when the worker ends.
        away = str(root / "away")
        lumia.pipe.start("sends away", lumia.Box.any(away))
        until(lambda: "ended process" in apart.text, what="the stray to be ended")
        below = psutil.Process(apart.process.pid).children(recursive=True)
        apart.end()
        assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below)


def stored(bot: Runtime, key: str) -> Any:
    text = bot.transport.read(key)[1]
    return json.loads(text) if text else None


def is_stored(bot: Runtime, key: str, value: Any) -> bool:
    return bool(stored(bot, key) == value)


def outcome(bot: Runtime, run_id: str) -> str:
    run = bot.transport.run(run_id)
    return run.outcome if run is not None else ""
