"""What one process does while deployments come and go, look by look, on the in-memory transport."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lumia.deployment import Member, Standing, Wanted
from lumia.errors import BackendUnavailableError, PkgError
from lumia.following import HUNG_SECONDS, Follower, Taking
from lumia.generations import Changed
from lumia.plugin import PluginSet
from tests.lumia.test_generations import DICE, Live
from tests.support.plugins import PluginBot
from tests.support.wait import until


class Process:
    """A bot that follows deployments, one look at a time."""

    def __init__(self, live: Live) -> None:
        self.live, self.bot = live, live.bot
        self.switches: list[Changed] = []
        self.brought: list[tuple[str, int]] = []
        self.restored: list[Wanted | None] = []
        self.told: list[str] = []
        self.fails: Callable[[], None] = lambda: None
        taking = Taking(
            "worker",
            self.load,
            self.bring,
            lambda wanted, number: self.restored.append(wanted),
            self.switches.append,
            hung=self.note_hung,
        )
        self.deployments = live.transport.deployments()
        self.follower = Follower(self.bot, taking)

    def load(self, wanted: Wanted, keep: PluginSet) -> PluginSet:
        self.fails()
        return self.live.load(keep)

    def bring(self, wanted: Wanted, number: int) -> None:
        self.brought.append((wanted.operation, number))

    def note_hung(self) -> None:
        self.told.append("hung")

    def look(self, times: int = 1) -> Standing:
        """Look, and wait for what that has begun."""
        for _ in range(times):
            self.follower.look()
            job = self.follower._job
            if job is not None:
                assert job.done.wait(10)
        return self.deployments.look()

    def begin(self, operation: str = "op") -> int:
        return self.deployments.begin(Wanted({"dice": {}}, operation=operation), 60)

    @property
    def seen(self) -> list[object]:
        return list(self.live.module().SEEN)


def _wait(gate: threading.Event) -> None:
    gate.wait(20)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    with PluginBot(tmp_path) as files:
        files.plugin("plugins/dice", DICE.replace("{n}", "1"), provides=["dice"])
        live = Live(files)
        made = Process(live)
        made.look()
        yield made
        live.bot.close()


def test_it_brings_the_root_in_step_loads_answers_and_switches(process: Process) -> None:
    process.live.write(2)
    assert process.begin() == 1
    assert process.look() == Standing(1, "preparing", 0)
    assert process.brought == [("op", 1)] and process.live.module().Roll.sides == 1
    assert process.look() == Standing(1, "active", 1)
    assert process.live.module().Roll.sides == 2 and process.follower.number == 1
    (changed,) = process.switches
    assert [plugin.generation for plugin in changed.gone] != [plugin.generation for plugin in changed.fresh]
    assert process.deployments.members()[0].active == 1
    published = process.live.transport.routes()
    assert published is not None and process.bot.table.number == published.number == 2


def test_it_answers_with_file_and_line_what_fails(process: Process) -> None:
    process.live.write(2, code="import lumia\nraise ValueError('no')\n")
    process.begin()
    assert process.look(2) == Standing(1, "rolled back", 0)
    ((name, why),) = process.deployments.decided()[0].reasons
    assert name == process.bot.worker and why == "plugin dice (import, plugins/dice/plugin.py:2): ValueError: no"
    assert process.seen == ["on_load"]


def test_a_root_that_cannot_be_brought_in_step_fails_it(process: Process) -> None:
    def away() -> None:
        raise PkgError("the repository is gone")

    process.fails = away
    process.begin()
    assert process.look(2) == Standing(1, "rolled back", 0)
    assert process.deployments.decided()[0].reasons == ((process.bot.worker, "the repository is gone"),)


def test_it_drops_what_another_process_could_not_load_and_restores_the_root(process: Process) -> None:
    process.deployments.attend(Member("other"))
    process.live.write(2)
    process.begin()
    process.look(2)
    process.deployments.answer(1, "other", "failed", ("not here",))
    process.live.write(1)
    process.look(4)
    assert process.restored == [None] and process.seen == ["on_load"]
    assert process.switches == [] and process.follower.number == 0


def test_a_process_that_missed_one_catches_up_and_publishes_its_routes(process: Process) -> None:
    process.deployments.leave(process.bot.worker)
    process.live.write(2)
    process.begin()
    assert process.deployments.look() == Standing(1, "active", 1)
    process.look(2)
    published = process.live.transport.routes()
    assert process.follower.number == 1 and process.live.module().Roll.sides == 2
    assert published is not None and published.number == 2


def test_a_process_that_cannot_catch_up_says_so_once_and_goes_on(process: Process) -> None:
    process.deployments.leave(process.bot.worker)
    process.live.write(2, code="raise ValueError\n")
    process.begin()
    process.look(4)
    ((what, fix),) = process.live.transport.alarms.values()
    assert "can't load deployment 1" in what and "pkg rollback" in fix
    process.live.write(3)
    process.begin("next")
    process.look(3)
    assert process.follower.number == 2 and process.live.transport.alarms == {}


def test_an_answer_that_nobody_hears_is_given_again(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    process.live.write(2)
    process.begin()
    process.look()
    answer, away = type(process.deployments).answer, [True]

    def unheard(*args: Any, **options: Any) -> object:
        if away:
            away.pop()
            raise BackendUnavailableError("away")
        return answer(*args, **options)

    monkeypatch.setattr(type(process.deployments), "answer", unheard)
    with pytest.raises(BackendUnavailableError):
        process.look()
    assert process.look() == Standing(1, "active", 1)
    process.look()
    assert process.follower.number == 1


def test_a_load_that_hangs_is_reported_when_its_deployment_is_over(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    process.fails = lambda: (gate.wait(20) and None) or None
    process.begin()
    process.follower.look()
    process.deployments.attend(Member("other"))
    process.deployments.answer(1, "other", "failed", ("no",))
    process.follower.look()
    assert process.told == []
    monkeypatch.setattr("lumia.following.HUNG_SECONDS", 0.0)
    process.follower.look()
    process.follower.look()
    assert process.told == ["hung"] and HUNG_SECONDS > 1
    gate.set()
    until(lambda: process.follower._job is None or process.follower._job.done.is_set())
    process.look(4)
    assert process.seen == ["on_load"] and process.bot.generations.prepared is None


@pytest.mark.parametrize("kind", ["catch up", "drop", "restore", "retire"])
def test_whatever_is_done_beside_and_hangs_is_reported_once(
    process: Process, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    gate = threading.Event()

    def hang() -> tuple[str, ...]:
        gate.wait(20)
        return ()

    process.follower._begin(kind, 1, hang)
    process.follower.look()
    assert process.told == []
    monkeypatch.setattr("lumia.following.JOB_SECONDS", 0.0)
    process.follower.look()
    process.follower.look()
    assert process.told == ["hung"]
    ((what, fix),) = process.live.transport.alarms.values()
    assert f"has tried to {kind}" in what and "restart this process" in fix
    job = process.follower._job
    gate.set()
    assert job is not None and job.done.wait(10)


def test_an_old_generation_is_unloaded_when_all_have_switched_and_no_run_needs_it(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lumia.following.RETIRE_SECONDS", 0.0)
    old = process.live.module()
    process.live.start()
    process.deployments.attend(Member("other"))
    process.live.write(2)
    process.begin()
    process.look()
    process.deployments.answer(1, "other", "ready")
    process.look(2)
    process.live.drain()
    process.look(2)
    assert old.SEEN == ["on_load", 1]
    process.deployments.attend(Member("other", active=1))
    process.look(2)
    assert old.SEEN == ["on_load", 1, "on_unload"] and len(process.bot.generations.held()) == 1


def test_a_process_that_stops_is_not_waited_for(process: Process) -> None:
    process.follower.start()
    until(lambda: process.deployments.members())
    process.follower.stop()
    assert process.deployments.members() == []


def test_its_own_thread_takes_a_deployment_to_the_end(process: Process) -> None:
    process.follower.start()
    process.live.write(2)
    process.begin()
    until(lambda: process.deployments.look() == Standing(1, "active", 1))
    until(lambda: process.follower.number == 1)
    process.follower.stop()


def test_a_gateway_in_which_a_plugin_hangs_leaves_even_if_it_cannot_end() -> None:
    code = (
        "import signal, threading\nfrom lumia.gateway.server import _leave\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('asked', flush=True))\n_leave(0.1)\nthreading.Event().wait(30)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=25, check=False)
    assert (done.stdout, done.returncode) == ("asked\n", 1), done.stderr
