"""What happens to work when its worker dies, hangs, or never got it (DESIGN §5)."""

from __future__ import annotations

import functools
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.runtime import Runtime
from tasks.transport import RedisTransport
from tests.support import servers
from tests.support.wait import until
from tests.support.workers import Celery, bot_root, opened, worker, write_plugin

CODE = '''
import asyncio
import os
import threading
import time

import lumia


@lumia.pipe.on("slow", priv=2)
def slow(content: lumia.Box) -> None:
    """Lasts until its flag file is there; the first try says that it has begun."""
    folder = content.into()["folder"]
    open(os.path.join(folder, f"begun.{os.getpid()}"), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
    lumia.store.incr("committed", scope=folder)
    lumia.utils.next()


@lumia.pipe.on("slow", priv=1)
def after(content: lumia.Box) -> None:
    lumia.store.append("done by", os.getpid(), scope=content.into()["folder"])


@lumia.pipe.on("pausing", priv=2)
def pausing(content: lumia.Box) -> None:
    lumia.store.incr("before", scope=content.into()["folder"])
    lumia.utils.next(delay=0.5)


@lumia.pipe.on("pausing", priv=1)
def paused(content: lumia.Box) -> None:
    lumia.store.append("done by", os.getpid(), scope=content.into()["folder"])


@lumia.pipe.on("steady")
def steady(content: lumia.Box) -> None:
    time.sleep(0.5)
    lumia.store.append("seen", content.into()["n"], scope=content.into()["folder"], keep=1000)


@lumia.pipe.on("turns")
def turns(content: lumia.Box) -> None:
    time.sleep(0.01)
    lumia.store.append(content.into()["lane"], content.into()["n"], scope=content.into()["folder"], keep=1000)


@lumia.pipe.on("poison", timeout=30, retry=1)
def poison(content: lumia.Box) -> None:
    os.kill(os.getpid(), 9)


@lumia.pipe.on("hanging", timeout=0.5, retry=1)
def hangs(content: lumia.Box) -> None:
    threading.Event().wait()


@lumia.pipe.on("tidy", timeout=0.3, retry=1)
async def tidies_up(content: lumia.Box) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        await asyncio.sleep(1.2)


@lumia.pipe.on("quick")
def quick(content: lumia.Box) -> None:
    lumia.store.append("seen", content.into()["n"], scope=content.into()["folder"], keep=1000)


@lumia.pipe.on("heavy", queue="heavy", timeout=1.0, hard=True, retry=1)
def heavy(content: lumia.Box) -> None:
    folder = content.into()["folder"]
    open(os.path.join(folder, f"begun.{os.getpid()}"), "w").close()
    while not os.path.exists(os.path.join(folder, "go")):
        time.sleep(0.01)
    lumia.store.set("pid", os.getpid(), scope=folder)
'''


IMPATIENT = """
from tasks.celery import app

soon = {"visibility_timeout": 1, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}
app.conf.broker_transport_options = app.conf.broker_transport_options | soon
"""
LATE = """
import lumia


@lumia.pipe.on("late", queue="late")
def late(content: lumia.Box) -> None:
    pass
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = bot_root(tmp_path / "bot")
    write_plugin(folder, "work", CODE)
    return folder


@contextmanager
def respawned(root: Path, url: str) -> Iterator[list[Celery]]:
    """Run a worker that has a successor whenever it dies, as `lumia up` sees to; yields all of them."""
    fleet: list[Celery] = []
    over = threading.Event()

    def keep_one() -> None:
        while not over.is_set():
            with worker(root, url, name=f"w{len(fleet)}") as running:
                fleet.append(running)
                until(lambda: over.is_set() or running.process.poll() is not None, timeout=200)

    thread = threading.Thread(target=keep_one)
    thread.start()
    try:
        until(lambda: fleet, timeout=60)
        yield fleet
    finally:
        over.set()
        thread.join()


def begun(folder: Path) -> list[Path]:
    return list(folder.glob("begun.*"))


def redis_of(bot: Runtime) -> Any:
    assert isinstance(bot.transport, RedisTransport)
    return bot.transport.redis


def outcome(run: str) -> str | None:
    found = lumia.runs.result(run)
    assert found is not None
    return found.outcome


def box(folder: Path, **values: object) -> lumia.Box[Any]:
    return lumia.Box.any({"folder": str(folder), **values})


def test_a_step_of_a_killed_worker_is_done_by_another_one_once(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    with worker(root, url, name="first") as first:
        run = lumia.pipe.start("slow", box(tmp_path), key="group")
        follower = lumia.pipe.start("quick", box(tmp_path, n=1), key="group")
        until(lambda: begun(tmp_path))
        first.kill()
        with worker(root, url, name="second") as second:
            until(lambda: len(begun(tmp_path)) == 2, timeout=20)
            (tmp_path / "go").touch()
            result = lumia.runs.wait(run, 20)
            lumia.runs.wait(follower, 20)
            store = lumia.store.of("work")
            assert result.outcome == "done"
            assert store.get("committed", scope=str(tmp_path)) == 1
            assert store.items("done by", scope=str(tmp_path)) == [second.process.pid]


def test_a_pause_outlives_the_worker_that_made_it(bot: Runtime, root: Path, url: str, tmp_path: Path) -> None:
    with worker(root, url, name="first") as first:
        run = lumia.pipe.start("pausing", box(tmp_path), key="group")
        until(lambda: (found := bot.transport.run(run)) is not None and found.state == "delayed")
        first.kill()
    with worker(root, url, name="second") as second:
        assert lumia.runs.wait(run, 20).outcome == "done"
        assert lumia.store.of("work").get("before", scope=str(tmp_path)) == 1
        assert lumia.store.of("work").items("done by", scope=str(tmp_path)) == [second.process.pid]


def test_a_message_that_died_between_pop_and_claim_is_found_again(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    with worker(root, url) as running:
        until(lambda: bot.transport.routes())
        running.end()
    runs = [lumia.pipe.start("quick", box(tmp_path, n=n)) for n in range(3)]
    assert redis_of(bot).rpop("default:3") is not None  # popped by someone who died before claiming
    with worker(root, url):
        for run in runs:
            assert lumia.runs.wait(run, 20).outcome == "done"
    assert sorted(lumia.store.of("work").items("seen", scope=str(tmp_path))) == [0, 1, 2]


def test_a_step_that_kills_its_workers_ends_in_the_dead_letters_and_takes_nobody_along(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    with respawned(root, url) as fleet:
        runs = [lumia.pipe.start("steady", box(tmp_path, n=n)) for n in range(4)]
        poison = lumia.pipe.start("poison", box(tmp_path))
        runs += [lumia.pipe.start("steady", box(tmp_path, n=n)) for n in range(4, 12)]
        assert lumia.runs.wait(poison, 90).outcome == "failed"
        assert [lumia.runs.wait(run, 60).outcome for run in runs] == ["done"] * 12
        assert len(fleet) == 3  # the two it killed, and the one that lives on
    [letter] = bot.transport.dead()
    assert [(one.attempt, one.lost) for one in letter.history] == [(1, True), (2, True), (3, False)]
    assert letter.run_id == poison
    assert letter.error.startswith("work.poison killed its process (SIGKILL), executed alone after it was lost 2 times")
    assert sorted(lumia.store.of("work").items("seen", scope=str(tmp_path))) == list(range(12))


def test_a_hung_step_is_given_up_and_the_worker_goes_on(bot: Runtime, root: Path, url: str, tmp_path: Path) -> None:
    with worker(root, url):
        hung = lumia.pipe.start("hanging", box(tmp_path))
        others = [lumia.pipe.start("quick", box(tmp_path, n=n)) for n in range(20)]
        assert all(lumia.runs.wait(run, 20).outcome == "done" for run in others)
        result = lumia.runs.wait(hung, 30)
        assert result.outcome == "failed" and "hung" in result.reason


def test_an_async_step_that_was_cancelled_at_its_limit_can_still_say_so(bot: Runtime, root: Path, url: str) -> None:
    with worker(root, url):
        result = lumia.runs.wait(lumia.pipe.start("tidy", lumia.Box.any(1)), 30)
        assert result.outcome == "failed" and "0.3 s" in result.reason
        assert len(result.steps) == 1 and bot.transport.health().counters.get("stale", 0) == 0


def test_a_worker_full_of_hung_steps_leaves_to_be_replaced(bot: Runtime, root: Path, url: str, tmp_path: Path) -> None:
    with worker(root, url, "--concurrency", "4") as running:
        for _ in range(4):
            lumia.pipe.start("hanging", box(tmp_path))
        until(lambda: running.process.poll() is not None, timeout=60, what="the worker has left")
        assert "leaves to be replaced" in running.text


def test_sigterm_finishes_what_is_claimed_and_leaves_the_rest(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    with worker(root, url, "--concurrency", "1") as running:
        run = lumia.pipe.start("slow", box(tmp_path))
        waiting = [lumia.pipe.start("quick", box(tmp_path, n=n)) for n in range(5)]
        until(lambda: begun(tmp_path))
        running.process.send_signal(signal.SIGTERM)
        until(lambda: "shutdown" in running.text)
        (tmp_path / "go").touch()
        assert running.process.wait(timeout=30) == 0
        record = bot.transport.run(run)
        assert record is not None and [step.outcome for step in record.steps] == ["next"]
    with worker(root, url, name="next"):
        assert lumia.runs.wait(run, 20).outcome == "done"
        assert all(lumia.runs.wait(one, 20).outcome == "done" for one in waiting)
    assert sorted(lumia.store.of("work").items("seen", scope=str(tmp_path))) == [0, 1, 2, 3, 4]


def test_a_revoked_task_cancels_its_run(bot: Runtime, root: Path, url: str, tmp_path: Path) -> None:
    with worker(root, url, "--concurrency", "1") as running:
        blocker = lumia.pipe.start("slow", box(tmp_path))
        until(lambda: begun(tmp_path))
        victim = lumia.pipe.start("quick", box(tmp_path, n=1))
        seq = redis_of(bot).hget(f"lumia:r:{victim}", "q").decode()
        env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url}
        import subprocess
        import sys

        code = f"from tasks.celery import app; app.control.revoke('{victim}.0.{seq}')"
        subprocess.run([sys.executable, "-c", code], env=env, check=True, cwd=lumia.runtime.current().base)
        until(lambda: "revoked" in running.text)
        (tmp_path / "go").touch()
        result = lumia.runs.wait(victim, 20)
        assert result.outcome == "cancelled" and "revoked" in result.reason
        assert lumia.runs.wait(blocker, 20).outcome == "done"


def test_prefork_children_execute_with_hard_limits_and_their_death_is_noticed(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with worker(root, url, "-P", "processes", "--concurrency", "2", "-Q", "heavy,default") as running:
        (tmp_path / "b" / "go").touch()
        quick = lumia.pipe.start("heavy", box(tmp_path / "b"))
        assert lumia.runs.wait(quick, 20).outcome == "done"
        child = lumia.store.of("work").get("pid", scope=str(tmp_path / "b"))
        assert child != running.process.pid
        endless = lumia.pipe.start("heavy", box(tmp_path / "a"))
        result = lumia.runs.wait(endless, 30)
        assert result.outcome == "failed"
        assert lumia.runs.wait(lumia.pipe.start("heavy", box(tmp_path / "b")), 20).outcome == "done"


def test_a_prefork_child_that_hangs_is_replaced(bot: Runtime, root: Path, url: str, tmp_path: Path) -> None:
    with worker(root, url, "-P", "processes", "--concurrency", "1") as running:
        hung = lumia.pipe.start("hanging", box(tmp_path))
        until(lambda: "leaves to be replaced" in running.text, timeout=40)
        quick = lumia.pipe.start("quick", box(tmp_path, n=1))
        assert lumia.runs.wait(quick, 40).outcome == "done"
        assert lumia.runs.wait(hung, 60).outcome == "failed"
        assert running.process.poll() is None


def test_an_emptied_broker_gets_the_routes_again(bot: Runtime, root: Path, url: str, tmp_path: Path) -> None:
    with worker(root, url):
        assert lumia.runs.wait(lumia.pipe.start("quick", box(tmp_path, n=1)), 20).outcome == "done"
        redis_of(bot).flushall()
        until(lambda: bot.transport.routes(), timeout=10)
        late = lumia.pipe.start("quick", box(tmp_path, n=2), delay=0.1)
        assert lumia.runs.wait(late, 20).outcome == "done"


def test_a_claim_is_not_taken_from_the_living_while_the_broker_was_away(
    bot: Runtime, root: Path, tmp_path: Path
) -> None:
    with servers.valkey(tmp_path / "other") as server, worker(root, server.url), opened(root, server.url):
        run = lumia.pipe.start("slow", box(tmp_path))
        until(lambda: begun(tmp_path))
        os.kill(server.pid, signal.SIGSTOP)
        paused = os.times().elapsed
        until(lambda: os.times().elapsed - paused > 3.0, timeout=10)
        os.kill(server.pid, signal.SIGCONT)
        runtime = lumia.runtime.current()
        until(lambda: runtime.transport.health().workers, timeout=20)
        (tmp_path / "go").touch()
        result = lumia.runs.wait(run, 30)
        assert result.outcome == "done"
        assert len(begun(tmp_path)) == 1
        assert runtime.transport.health().counters.get("stale", 0) == 0


def test_a_rolling_restart_under_load_loses_nothing_uses_up_no_try_and_keeps_the_order(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    settings = root / "config" / "lumia.toml"
    settings.write_text(settings.read_text().replace("drain = 3.0", "drain = 60.0"))  # nobody is hurried, however slow
    runs: list[str] = []
    started = [0.0]

    def start_one() -> None:
        lane, n = len(runs) % 8, len(runs) // 8
        runs.append(lumia.pipe.start("turns", box(tmp_path, lane=str(lane), n=n), key=f"lane {lane}"))
        started[0] = os.times().elapsed

    def ended_under_load(leaving: Celery) -> bool:
        if os.times().elapsed - started[0] > 0.03:
            start_one()
        return leaving.process.poll() is not None

    with ExitStack() as stack:
        prefork = ["-P", "processes", "--concurrency", "2"]
        old = [stack.enter_context(worker(root, url, *args, name=f"old{n}")) for n, args in enumerate([[], prefork])]
        for leaving in old:
            for _ in range(48):
                start_one()
            leaving.process.send_signal(signal.SIGTERM)
            until(functools.partial(ended_under_load, leaving), timeout=60)
            assert leaving.process.poll() == 0
            if leaving is old[0]:
                stack.enter_context(worker(root, url, name="new"))
        for run in runs:
            assert lumia.runs.wait(run, 30).outcome == "done"
    store = lumia.store.of("work")
    for lane in range(8):
        seen = store.items(str(lane), scope=str(tmp_path))
        assert seen == list(range(len(seen))) and len(seen) == len(runs[lane::8])
    steps = [entry for entry in bot.transport.tail("0", 0, 100_000) if entry.kind == "step"]
    assert len(steps) == len(runs) and {entry.attempt for entry in steps} == {1}


def test_a_task_that_outlasts_the_brokers_visibility_timeout_runs_once(
    bot: Runtime, root: Path, url: str, tmp_path: Path
) -> None:
    (root / "impatient.py").write_text(IMPATIENT)
    with worker(root, url, app="impatient") as running:
        run = lumia.pipe.start("slow", box(tmp_path))
        until(lambda: begun(tmp_path))
        began = os.times().elapsed
        until(lambda: os.times().elapsed - began > 3.5)
        (tmp_path / "go").touch()
        assert lumia.runs.wait(run, 20).outcome == "done"
        assert lumia.store.of("work").get("committed", scope=str(tmp_path)) == 1
        assert len(begun(tmp_path)) == 1 and not redis_of(bot).exists("unacked")
        assert running.process.poll() is None


def test_a_broker_that_is_killed_or_cuts_its_connections_makes_no_live_claim_run_again(
    root: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    with ExitStack() as first:
        server = first.enter_context(servers.valkey(folder))
        with worker(root, server.url), opened(root, server.url) as runtime:
            run = lumia.pipe.start("slow", box(tmp_path))
            until(lambda: begun(tmp_path))
            for _ in range(20):
                redis_of(runtime).execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            until(lambda: runtime.transport.health().workers, timeout=20)
            saved = redis_of(runtime)
            until(lambda: saved.info("persistence")["aof_pending_bio_fsync"] == 0)
            os.kill(server.pid, signal.SIGKILL)
            first.close()
            with servers.valkey(folder, port=server.port):
                until(lambda: runtime.transport.health().workers, timeout=30)
                began = os.times().elapsed
                until(lambda: os.times().elapsed - began > 6.5)  # longer than a silent worker counts as alive
                (tmp_path / "go").touch()
                assert lumia.runs.wait(run, 30).outcome == "done"
                assert len(begun(tmp_path)) == 1
                assert lumia.store.of("work").get("committed", scope=str(tmp_path)) == 1
                assert runtime.transport.health().counters.get("stale", 0) == 0


def test_a_prefork_worker_serves_queues_that_appear_later(bot: Runtime, root: Path, url: str) -> None:
    with worker(root, url, "-P", "processes", "--concurrency", "1", name="prefork"):
        write_plugin(root, "latecomer", LATE)
        with worker(root, url, "-Q", "default", name="newer"):
            run = lumia.pipe.start("late", lumia.Box.any(1))
            # it doesn't have the plugin, so it hands the step on: that it has taken it is what counts here
            until(lambda: redis_of(bot).hget(f"lumia:r:{run}", "B"), timeout=20)
