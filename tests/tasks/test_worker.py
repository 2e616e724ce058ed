"""The worker as operators see it: names in Celery's events, queues of plugins, schedules of its own."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery import Celery as CeleryApp

import lumia
from lumia.paths import base
from lumia.runtime import Runtime
from tasks.supervise.check_queues import check_queues
from tasks.supervise.ports import free_port
from tasks.supervise.resp import connect as ask
from tasks.transport import RedisTransport
from tests.support.wait import until
from tests.support.workers import bot_root, celery, worker, write_plugin

CODE = """
import os

import lumia


def stage(n: int):
    def run(content: lumia.Box) -> None:
        lumia.utils.next()
    run.__name__ = f"stage{n}"
    return lumia.pipe.on("four", priv=9 - n)(run)


for number in range(4):
    stage(number)


@lumia.pipe.on("broken", retry=1)
def broken(content: lumia.Box) -> None:
    raise RuntimeError("as planned")


@lumia.pipe.on("heavy", queue="heavy")
def heavy(content: lumia.Box) -> None:
    lumia.store.set("pid", os.getpid())
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = bot_root(tmp_path / "bot")
    write_plugin(folder, "staged", CODE)
    return folder


class Events:
    """What Flower would see: Celery's task events as they arrive."""

    def __init__(self, url: str) -> None:
        self.seen: list[dict[str, Any]] = []
        self.app = CeleryApp("watcher", broker=url, set_as_current=False)
        self.receiver: Any = None
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        with self.app.connection_for_read() as connection:
            self.receiver = self.app.events.Receiver(connection, handlers={"*": self.seen.append})
            self.receiver.capture(limit=None, timeout=None, wakeup=False)

    def __enter__(self) -> Events:
        self.thread.start()
        until(lambda: any(event["type"] == "worker-heartbeat" for event in self.seen), timeout=20)
        return self

    def __exit__(self, *error: object) -> None:
        self.receiver.should_stop = True

    def of(self, kind: str, run_id: str) -> list[dict[str, Any]]:
        return [event for event in list(self.seen) if event["type"] == kind and event["uuid"].startswith(run_id)]


@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_every_step_shows_under_its_handlers_name_fused_or_not(bot: Runtime, root: Path, url: str, pool: str) -> None:
    args = ["-P", "processes", "--concurrency", "2"] if pool == "processes" else []
    with worker(root, url, *args), Events(url) as events:
        run = lumia.pipe.start("four", lumia.Box.any(1))
        assert lumia.runs.wait(run, 20).outcome == "done"
        until(lambda: len(events.of("task-succeeded", run)) == 4, timeout=10)
        names = [event["name"] for event in events.of("task-received", run)]
        assert sorted(names) == [f"staged.stage{n}" for n in range(4)]
        assert len({event["uuid"] for event in events.of("task-succeeded", run)}) == 4


def test_a_failed_step_shows_as_failed_with_its_error(bot: Runtime, root: Path, url: str) -> None:
    with worker(root, url), Events(url) as events:
        run = lumia.pipe.start("broken", lumia.Box.any(1))
        lumia.runs.wait(run, 20)
        failed = until(lambda: events.of("task-failed", run), timeout=10)
        assert "as planned" in failed[0]["exception"]


def test_a_worker_can_be_given_the_queue_of_a_plugin_alone(bot: Runtime, root: Path, url: str) -> None:
    with worker(root, url, "-Q", "default", name="light"):
        run = lumia.pipe.start("heavy", lumia.Box.any(1))
        four = lumia.pipe.start("four", lumia.Box.any(1))
        assert lumia.runs.wait(four, 20).outcome == "done"
        assert lumia.runs.result(run).outcome is None  # type: ignore[union-attr]
        with ask(url) as redis:
            lonely = ["no worker serves the queue heavy (staged): 1 step waiting in it"]
            until(lambda: [one.message for one in check_queues(redis)] == lonely, what="the doctor names the queue")
            with worker(root, url, "-Q", "heavy", name="heavy") as heavy:
                assert lumia.runs.wait(run, 20).outcome == "done"
                assert lumia.store.of("staged").get("pid") == heavy.process.pid
                until(lambda: not list(check_queues(redis)), what="its worker has told that it serves the queue")


def test_what_waits_in_the_queue_of_a_removed_plugin_is_not_forgotten(bot: Runtime, root: Path, url: str) -> None:
    with worker(root, url, "-Q", "default", name="before"):
        run = lumia.pipe.start("heavy", lumia.Box.any(1))
    shutil.rmtree(root / "plugins" / "staged")
    with worker(root, url, name="after"):
        result = lumia.runs.wait(run, 20)
        assert [(step.outcome, step.reason) for step in result.steps] == [("skipped", "removed")]


def test_a_broken_plugin_is_reported_and_the_others_work(bot: Runtime, root: Path, url: str) -> None:
    write_plugin(root, "crooked", "import lumia\n\ndef oops(:\n")
    with worker(root, url) as running:
        assert "crooked" in running.text and "plugin.py:3" in running.text
        assert lumia.runs.wait(lumia.pipe.start("four", lumia.Box.any(1)), 20).outcome == "done"


def test_a_plugin_that_fails_at_its_start_holds_up_nobodys_chain(bot: Runtime, root: Path, url: str) -> None:
    code = """
import lumia

@lumia.pipe.on("four", priv=20)
def never(content: lumia.Box) -> None:
    raise AssertionError

def on_load() -> None:
    raise RuntimeError("no database")
"""
    write_plugin(root, "crooked", code)
    with worker(root, url) as running:
        assert "no database" in running.text
        result = lumia.runs.wait(lumia.pipe.start("four", lumia.Box.any(1)), 20)
        assert [step.handler for step in result.steps] == [f"staged.stage{n}" for n in range(4)]


def test_a_worker_serves_as_many_steps_as_configured(bot: Runtime, root: Path, url: str) -> None:
    with worker(root, url) as running:
        assert "concurrency: 4" in running.text


def test_a_worker_whose_broker_is_away_ends_with_one_line(root: Path) -> None:
    with celery(root, "redis://127.0.0.1:1/0", "worker") as running:
        assert running.process.wait(timeout=40) != 0
        assert "error: " in running.text and "Redis does not answer" in running.text


def test_without_a_broker_the_command_says_so_in_one_line(root: Path) -> None:
    import subprocess
    import sys

    env = {**os.environ, "LUMIA_ROOT": str(root)}
    env.pop("LUMIA_REDIS_URL", None)
    command = [sys.executable, "-m", "celery", "--workdir", str(base()), "-A", "tasks", "worker"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode != 0
    assert "lumia up" in done.stderr and "Traceback" not in done.stderr


SETTINGS = '[limit]\ntype = "int"\ndefault = 3\nmin = 0\ndescription = "How many"\n'


def test_a_plugin_with_a_bad_setting_is_reported_and_comes_back_when_the_file_is_repaired(
    bot: Runtime, root: Path, url: str
) -> None:
    code = 'import lumia\n\n\n@lumia.pipe.on("set")\ndef setting(content: lumia.Box) -> None:\n    pass\n'
    write_plugin(root, "fussy", code, config_schema="config-schema.toml")
    (root / "plugins" / "fussy" / "config-schema.toml").write_text(SETTINGS)
    (root / "config" / "fussy.toml").write_text("limit = -5\n")
    assert isinstance(bot.transport, RedisTransport)
    redis: Any = bot.transport.redis
    with worker(root, url) as running:
        assert "fussy" in until(lambda: redis.get("lumia:failures"), timeout=10).decode()
        (root / "config" / "fussy.toml").write_text("limit = 5\n")
        assert running.process.wait(timeout=20) == 0
    with worker(root, url, name="next"):
        assert redis.get("lumia:failures") is None
        run = lumia.pipe.start("set", lumia.Box.any(1))
        assert [step.handler for step in lumia.runs.wait(run, 20).steps] == ["fussy.setting"]


def test_flower_lists_every_step_by_its_handlers_name(bot: Runtime, root: Path, url: str) -> None:
    port = free_port()
    args = ["--address=127.0.0.1", f"--port={port}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOWER_UNAUTHENTICATED_API", "true")
        with celery(root, url, "flower", *args, name="flower") as flower, worker(root, url):
            until(lambda: _flower(port, "/api/workers?refresh=1"), timeout=30, what="Flower sees the worker")
            run = lumia.pipe.start("four", lumia.Box.any(1))
            lumia.runs.wait(run, 20)
            seen = until(lambda: _of(_flower(port, "/api/tasks"), run, 4), timeout=20, what="Flower lists four steps")
            flower.kill()
    assert sorted(task["name"] for task in seen) == [f"staged.stage{n}" for n in range(4)]
    assert {task["state"] for task in seen} == {"SUCCESS"}


def _flower(port: int, path: str) -> dict[str, Any]:
    try:
        return dict(httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5).json())
    except (httpx.HTTPError, ValueError):
        return {}


def _of(tasks: dict[str, Any], run: str, number: int) -> list[dict[str, Any]]:
    found = [task for uuid, task in tasks.items() if uuid.startswith(run) and task["state"] == "SUCCESS"]
    return found if len(found) == number else []
