"""The supervisor over real processes: what dies comes back, what ends ends in order, nothing is left."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from lumia.errors import SupervisorError
from tasks.supervise import client
from tasks.supervise.folders import Folders
from tasks.supervise.identity import start_mark
from tests.support.toy_bot import ToyBot, toy_bot
from tests.support.wait import until


def ended(pid: int | None) -> bool:
    return pid is None or start_mark(pid) == 0.0


def left_in(root: Path) -> list[str]:
    return sorted(file.name for file in Folders(root).run.rglob("*") if file.is_file())


def stop(bot: ToyBot) -> int:
    bot.process.send_signal(signal.SIGTERM)
    return bot.process.wait(20)


def test_a_bot_is_ready_when_every_service_answers(bot_root: Path) -> None:
    with toy_bot(bot_root, "store=steady@5", "front=steady") as bot:
        state = bot.wait_ready()
        assert state.as_dict() == {
            "ready": True,
            "services": [
                {"name": "store", "pid": bot.service("store").pid, "state": "ready", "url": None},
                {"name": "front", "pid": bot.service("front").pid, "state": "ready", "url": None},
            ],
        }


def test_a_killed_child_is_restarted_and_named_in_the_log(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        first = bot.service("front").pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: bot.service("front").pid not in (None, first) and bot.state.ready, what="front runs again")
        assert f"front (pid {first}) ended with SIGKILL; starting it again in 0.5 s" in bot.log
        assert bot.service("front").restarts == 1


def test_the_bot_is_not_ready_while_an_essential_child_is_away(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady", "extra=steady?") as bot:
        bot.wait_ready()
        os.kill(bot.service("front").pid or 0, signal.SIGKILL)
        until(lambda: not bot.state.ready, what="not ready")
        until(lambda: bot.state.ready, what="ready again")


def test_children_end_stage_by_stage_and_nothing_is_left(bot_root: Path) -> None:
    with toy_bot(bot_root, "store=steady@5", "worker=steady@2", "front=steady") as bot:
        pids = [one.pid for one in bot.wait_ready().services]
        assert stop(bot) == 0
        assert [line for line in bot.diary if "ended" in line] == ["front ended", "worker ended", "store ended"]
        assert all(ended(pid) for pid in pids)
        assert left_in(bot_root) == []


def test_a_child_that_ignores_sigterm_is_killed_after_its_grace_period(bot_root: Path) -> None:
    with toy_bot(bot_root, "deaf=stubborn") as bot:
        pid = bot.wait_ready().services[0].pid
        assert stop(bot) == 0
        assert ended(pid)
        assert f"deaf (pid {pid}) did not end in time" in bot.log


def test_the_children_of_a_killed_child_end_with_it(bot_root: Path) -> None:
    with toy_bot(bot_root, "pool=forking") as bot:
        bot.wait_ready()
        noted = bot_root / "data" / "pool.child"
        until(lambda: noted.exists() and noted.read_text(), what="the grandchild is noted")
        grandchild = int(noted.read_text())
        os.kill(bot.service("pool").pid or 0, signal.SIGKILL)
        until(lambda: ended(grandchild), what="the grandchild has ended")


def test_ctrl_c_in_the_terminal_does_not_reach_the_children(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        os.killpg(bot.process.pid, signal.SIGINT)
        assert bot.process.wait(20) == 0
        assert "front got SIGTERM" in bot.diary
        assert "front got SIGINT" not in bot.diary


def test_a_start_that_can_not_succeed_fails_in_one_line_and_leaves_nothing(bot_root: Path) -> None:
    with toy_bot(bot_root, "store=steady@5", "front=failing") as bot:
        assert bot.process.wait(20) == 1
        assert bot.process.stderr is not None
        said = bot.process.stderr.read()
        assert said.count("\n") == 1
        assert "front ended with exit code 3 3 times: front has no luck; see " in said
        assert left_in(bot_root) == []
        assert "store ended" in bot.diary


def test_a_plugin_that_ends_its_process_is_named_and_the_bot_is_ready_without_it(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=loading") as bot:
        bot.wait_ready()
        assert bot.log.count("ended with exit code 3 while plugin bad was in its import") == 3
        assert "quarantined: 3 processes ended during its import" in "".join(bot.diary)


def test_an_inessential_service_that_fails_does_not_stop_the_bot(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady", "extra=failing?") as bot:
        until(lambda: bot.state.ready, what="ready")
        until(lambda: bot.service("extra").restarts >= 2, what="extra was tried again")
        assert bot.state.ready


def test_a_second_supervisor_is_refused_and_told_the_first_ones_pid(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        with toy_bot(bot_root, "front=steady") as twin:
            assert twin.process.wait(20) == 1
            assert twin.process.stderr is not None
            assert f"already up (pid {bot.process.pid})" in twin.process.stderr.read()
        assert bot.state.ready


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="only the Linux kernel ends children with their parent"
)
def test_children_end_when_the_supervisor_is_killed(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady", "deaf=stubborn") as bot:
        pids = [one.pid for one in bot.wait_ready().services]
        bot.process.kill()
        until(lambda: all(ended(pid) for pid in pids), what="no orphan is left")


def test_the_next_start_ends_what_a_killed_supervisor_left(bot_root: Path) -> None:
    """An orphan is made by hand, as a system without the kernel's help would leave it."""
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        state = Folders(bot_root).state.read_text()
        bot.process.kill()
        bot.process.wait()
        until(lambda: ended(bot_pid(state)), what="the first front is gone")
    orphan = psutil.Popen(command_of(state), start_new_session=True)
    left = state.replace(str(bot_pid(state)), str(orphan.pid)).replace(mark_of(state), str(start_mark(orphan.pid)))
    Folders(bot_root).state.write_text(left)
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        assert orphan.wait(5) is not None
        assert f"front (pid {orphan.pid}) is left from a `lumia up` that was killed; ending it" in bot.log


def test_a_stale_state_never_harms_a_process_that_got_the_same_pid(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        state = Folders(bot_root).state.read_text()
        assert stop(bot) == 0
    Folders(bot_root).state.write_text(state.replace(str(bot_pid(state)), str(os.getpid())))
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        assert "is left from" not in bot.log


def test_a_stale_lock_file_does_not_hinder_a_start(bot_root: Path) -> None:
    Folders(bot_root).prepare()
    Folders(bot_root).lock.write_text("1\n")
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()


def test_a_worker_is_added_served_and_drained(bot_root: Path) -> None:
    with toy_bot(bot_root, "worker=steady") as bot:
        bot.wait_ready()
        added = client.add_worker(bot_root, {"name": "heavy"})
        until(lambda: bot.service("heavy").state == "ready", what="the worker is ready")
        assert added == {"name": "heavy", "pid": bot.service("heavy").pid}
        assert [one.name for one in client.workers(bot_root)] == ["worker", "heavy"]
        assert client.remove_worker(bot_root, "heavy", timeout=20) == {"name": "heavy", "drained": True}
        assert "heavy ended" in bot.diary
        assert [one.name for one in client.workers(bot_root)] == ["worker"]


def test_a_worker_that_does_not_drain_is_ended_and_that_is_said(bot_root: Path) -> None:
    with toy_bot(bot_root, "worker=steady") as bot:
        bot.wait_ready()
        client.add_worker(bot_root, {"name": "deaf", "pool": "stubborn"})
        until(lambda: bot.service("deaf").state == "ready", what="the worker is ready")
        assert client.remove_worker(bot_root, "deaf", timeout=20)["drained"] is False


def test_wishes_about_workers_that_can_not_be_fulfilled_are_refused(bot_root: Path) -> None:
    with toy_bot(bot_root, "worker=steady") as bot:
        bot.wait_ready()
        with pytest.raises(SupervisorError, match="already there"):
            client.add_worker(bot_root, {"name": "worker"})
        with pytest.raises(SupervisorError, match="no worker is called 'x'; running: worker"):
            client.remove_worker(bot_root, "x", timeout=5)
        with pytest.raises(SupervisorError, match="the last worker"):
            client.remove_worker(bot_root, "worker", timeout=5)


def test_the_last_worker_of_the_shared_queues_stays(bot_root: Path) -> None:
    with toy_bot(bot_root, "worker=steady") as bot:
        bot.wait_ready()
        client.add_worker(bot_root, {"name": "heavy", "queues": ["heavy"]})
        with pytest.raises(SupervisorError, match="the last worker of the shared queues"):
            client.remove_worker(bot_root, "worker", timeout=5)
        client.add_worker(bot_root, {"name": "second"})
        assert client.remove_worker(bot_root, "worker", timeout=20)["drained"] is True
        assert client.remove_worker(bot_root, "heavy", timeout=20)["drained"] is True


@pytest.mark.parametrize(
    "how, said",
    [
        (signal.SIGUSR1, "left because its threads hung (exit code 70); starting it again at once"),
        (signal.SIGUSR2, "left because it needs a fresh start (exit code 0); starting it again at once"),
        (signal.SIGKILL, "ended with SIGKILL; starting it again in 0.5 s"),
    ],
)
def test_a_worker_that_left_of_its_own_accord_is_back_at_once(bot_root: Path, how: signal.Signals, said: str) -> None:
    with toy_bot(bot_root, "worker=steady") as bot:
        bot.wait_ready()
        first = bot.service("worker").pid
        os.kill(first or 0, how)
        until(lambda: bot.service("worker").pid not in (None, first) and bot.state.ready, what="the worker is back")
        assert f"worker (pid {first}) {said}" in bot.log


def test_a_service_that_is_no_worker_has_no_reason_to_leave(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady") as bot:
        bot.wait_ready()
        os.kill(bot.service("front").pid or 0, signal.SIGUSR2)
        until(lambda: "ended with exit code 0; starting it again in 0.5 s" in bot.log, what="it is restarted late")


def test_asking_a_bot_that_is_not_up_says_how_to_start_it(bot_root: Path) -> None:
    with pytest.raises(SupervisorError, match="start it with `lumia up`"):
        client.workers(bot_root)


def test_down_drains_the_running_bot(bot_root: Path) -> None:
    with toy_bot(bot_root, "front=steady") as bot:
        pid = bot.wait_ready().services[0].pid
        assert client.down(bot_root, lambda line: None, timeout=10) is True
        assert bot.process.wait(5) == 0
        assert ended(pid)
        assert left_in(bot_root) == []


def test_down_does_nothing_when_nothing_runs(bot_root: Path) -> None:
    assert client.down(bot_root, lambda line: None, timeout=1) is False


def test_status_of_a_bot_that_is_down_is_not_ready(bot_root: Path) -> None:
    assert client.status(bot_root).as_dict() == {"ready": False, "services": []}


def bot_pid(state: str) -> int:
    return int(json.loads(state)["services"][0]["pid"])


def mark_of(state: str) -> str:
    return str(json.loads(state)["services"][0]["started"])


def command_of(state: str) -> list[str]:
    return [str(word) for word in json.loads(state)["services"][0]["command"]]
