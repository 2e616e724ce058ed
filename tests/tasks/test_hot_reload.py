"""Plugins exchanged under a running bot: real workers, a real Valkey, files changed as pkg changes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lumia
from lumia.pkg.bringing import Root
from lumia.pkg.deploying import Outcome, hand_over
from lumia.pkg.lockfile import Lock, write
from lumia.pkg.model import Locked
from lumia.runtime import Runtime
from tests.support import servers
from tests.support.workers import bot_root, opened, worker

CODE = """
import lumia

@lumia.pipe.on("count", priv=1)
def first(content: lumia.Box):
    lumia.store.append("seen", [content.into(), "first", {version}])
    lumia.utils.next()

@lumia.pipe.on("count")
def second(content: lumia.Box):
    lumia.store.append("seen", [content.into(), "second", {version}])
"""


@dataclass
class Machine:
    """A bot root whose plugins a test exchanges as `pkg` does, without its downloads."""

    root: Path
    lock: dict[str, Locked] = field(default_factory=dict)

    def write(self, name: str, version: int, code: str = CODE, **manifest: Any) -> None:
        folder = self.root / "plugins" / name.replace("-", "_")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"name": name, **manifest}))
        (folder / "plugin.py").write_text(code.replace("{version}", str(version)))
        self.lock[name] = Locked(name, f"{version}.0.0", f"v{version}.0.0", f"{version:040x}", f"/src/{name}", "git",
                                 f"sha256:{version:064x}")  # fmt: skip
        self._save()

    def remove(self, name: str) -> None:
        shutil.rmtree(self.root / "plugins" / name.replace("-", "_"))
        del self.lock[name]
        self._save()

    def _save(self) -> None:
        write(self.root, Lock(self.lock))

    def deploy(self, bot: Runtime, wait: float = 20.0) -> Outcome:
        assert bot.config is not None
        return hand_over(bot.transport, Root(self.root, bot.config), self.lock, wait=wait)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with servers.valkey(tmp_path / "valkey") as server:
        yield server.url


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(bot_root(tmp_path / "bot"))
    made.write("counter", 1)
    return made


def seen(bot: Runtime) -> list[list[Any]]:
    return lumia.store.of("counter").items("seen")


@pytest.mark.parametrize("pool", [(), ("-P", "processes", "-c", "2")], ids=["threads", "prefork"])
def test_an_upgrade_reaches_running_workers(machine: Machine, url: str, pool: Sequence[str]) -> None:
    with worker(machine.root, url, *pool) as running, opened(machine.root, url) as bot:
        lumia.runs.wait(lumia.pipe.start("count", lumia.Box.any(1)), 20)
        machine.write("counter", 2)
        outcome = machine.deploy(bot)
        assert outcome.ok and outcome.processes == (2 if pool else 1), (outcome, running.text)
        lumia.runs.wait(lumia.pipe.start("count", lumia.Box.any(2)), 20)
        machine.remove("counter")
        assert machine.deploy(bot).ok
        assert lumia.runs.wait(lumia.pipe.start("count", lumia.Box.any(3)), 20).reason == "no handler"
        assert seen(bot) == [[1, "first", 1], [1, "second", 1], [2, "first", 2], [2, "second", 2]]
        assert running.process.poll() is None
