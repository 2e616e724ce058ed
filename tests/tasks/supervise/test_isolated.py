"""Which workers of isolated plugins there are to be, and that the supervisor follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lumia.errors import PluginLoadError
from lumia.paths import base
from tasks.supervise.folders import Folders
from tasks.supervise.isolated import IsolatedWorkers, make_environments
from tasks.supervise.service import Service
from tasks.supervise.services import Place
from tasks.supervise.supervisor import Supervisor
from tests.support.toy_bot import toy
from tests.support.wait import until
from tests.support.workers import bot_root, write_plugin


def place(root: Path) -> Place:
    return Place(base(), root, "redis://h/0", after=("valkey",))


def test_each_isolated_plugin_has_a_worker_unless_it_is_disabled(tmp_path: Path) -> None:
    root = bot_root(tmp_path / "bot")
    workers = IsolatedWorkers(place(root))
    assert workers.services() == []
    write_plugin(root, "deep_thought", "", isolation="process", limits={"concurrency": 3})
    write_plugin(root, "plain", "")
    (root / "plugins" / "broken").mkdir()
    (root / "plugins" / "broken" / "manifest.json").write_text('{"isolation": "process", "name": 3}')
    [service] = workers.services()
    assert (service.name, service.kind, service.essential) == ("plugin-deep-thought", "isolated", False)
    assert service.queues == ("plugin.deep-thought",) and service.command[-2:] == ("-c", "3")
    assert service.env["LUMIA_ISOLATED_WORKER"] == "deep-thought"
    (root / "config" / "lumia.toml").write_text('[plugins]\ndisabled = ["deep_thought"]\n')
    assert workers.services() == []


def test_environments_are_made_before_anything_starts_and_one_that_fails_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = bot_root(tmp_path / "bot")
    write_plugin(root, "apart", "", isolation="process")
    said: list[str] = []
    make_environments(place(root), said.append)
    assert said == ["making the environment of apart"]

    def refused(*_: object) -> None:
        raise PluginLoadError("the disk is full")

    monkeypatch.setattr("lumia.isolation_env._make", refused)
    write_plugin(root, "other", "", isolation="process", python_dependencies=["x"])
    make_environments(place(root), said.append)
    assert said[1:] == ["plugin other can't be started: the disk is full"]


def test_the_supervisor_follows_plugins_that_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = Folders(tmp_path)
    folders.prepare()
    wanted: list[Service] = []
    said: list[str] = []
    monkeypatch.setattr("tasks.supervise.supervisor._COMPARING", 0.0)
    supervisor = Supervisor(folders, [], say=said.append, changing=lambda: wanted)
    supervisor.parting = 0.0

    def states() -> dict[str, str]:
        supervisor._turn()
        return {one.name: one.state for one in supervisor.state.services}

    assert states() == {}
    wanted.append(toy(tmp_path, "plugin-apart", "steady", kind="isolated", essential=False))
    until(lambda: states() == {"plugin-apart": "ready"}, timeout=20)
    changed = replace(wanted[0], command=(*wanted[0].command, "more"))
    before, wanted[0] = supervisor.state.services[0].pid, changed
    until(lambda: states() == {"plugin-apart": "ready"} and supervisor.state.services[0].pid != before, timeout=20)
    wanted.clear()
    until(lambda: states() == {}, timeout=20)
    assert [line for line in said if "added" in line or "draining" in line] == [
        "plugin-apart is added: its plugin is isolated", "worker plugin-apart is draining",
        "plugin-apart is added: its plugin is isolated", "worker plugin-apart is draining",
    ]  # fmt: skip
