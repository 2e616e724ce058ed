"""Workers of isolated plugins for tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lumia.isolation import queue_of
from lumia.paths import ISOLATED_WORKER
from lumia.pkg.bringing import Root
from lumia.pkg.deploying import Outcome, hand_over
from lumia.pkg.lockfile import Lock
from lumia.pkg.lockfile import write as write_lock
from lumia.pkg.model import Locked
from lumia.runtime import Runtime
from tests.support.workers import Celery, worker, write_plugin


@contextmanager
def isolated(root: Path, url: str, plugin: str) -> Iterator[Celery]:
    """Run the worker of an isolated plugin, as `lumia isolated PLUGIN` does, and wait until it is ready."""
    name = f"plugin-{plugin}"
    with (
        patch.dict(os.environ, {ISOLATED_WORKER: plugin}),
        worker(root, url, "-Q", queue_of(plugin), name=name) as running,
    ):
        yield running


@dataclass
class Exchanged:
    """A bot root whose plugins' files are exchanged as `pkg` would have done, and handed to the bot that runs."""

    root: Path
    lock: dict[str, Locked] = field(default_factory=dict)

    def write(self, name: str, version: int, code: str, **manifest: Any) -> None:
        """Put the files of a version in the place of those before; `{version}` in the code is its number."""
        shutil.rmtree(self.root / "plugins" / name, ignore_errors=True)
        write_plugin(self.root, name, code.replace("{version}", str(version)), **manifest)
        self.lock[name] = Locked(name, f"{version}.0.0", f"v{version}.0.0", f"{version:040x}", f"/src/{name}", "git",
                                 f"sha256:{version:064x}")  # fmt: skip
        write_lock(self.root, Lock(self.lock))

    def deploy(self, bot: Runtime) -> Outcome:
        """Have the running processes take the files over."""
        assert bot.config is not None
        return hand_over(bot.transport, Root(self.root, bot.config), self.lock, wait=60.0)
