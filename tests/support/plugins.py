"""A bot's folders with real plugins in them, for tests of discovery, import and loading."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from lumia import finder
from lumia.config import Field
from lumia.loader import Loader, PluginSet
from lumia.services import Services

CORE = "0.2.0"


@dataclass
class RecordingConfig:
    """Takes schemas like the bot's configuration does and remembers them."""

    registered: dict[str, tuple[Path | None, list[str]]] = field(default_factory=dict)

    def register(self, plugin_name: str, schema_file: Path | None, declared: dict[str, Field]) -> None:
        self.registered[plugin_name] = (schema_file, list(declared))


class PluginBot:
    """Base and bot root below `folder`; leaving the block takes its plugins out of the process again."""

    def __init__(self, folder: Path) -> None:
        self.base, self.root = folder / "base", folder / "root"
        for path in (self.base / "handlers", self.base / "adapters", self.root / "plugins"):
            path.mkdir(parents=True)
        self.config = RecordingConfig()
        self.services = Services()
        self.modules = set(sys.modules)

    def __enter__(self) -> PluginBot:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        finder.uninstall(self.base, self.root)
        for name in set(sys.modules) - self.modules:
            if name.partition(".")[0] in finder.NAMESPACES and name.count(".") == 1:
                finder.FINDER.forget(name)

    def folder(self, place: str) -> Path:
        """Return the folder for e.g. `plugins/echo`."""
        return (self.root if place.startswith("plugins/") else self.base) / place

    def plugin(self, place: str, code: str = "", **manifest: Any) -> Path:
        """Write a plugin, e.g. at `plugins/echo`; its name is the folder's unless the manifest says another."""
        folder = self.folder(place)
        folder.mkdir(exist_ok=True)
        content = {"name": folder.name.replace("_", "-"), **manifest}
        (folder / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
        (folder / "plugin.py").write_text(code, encoding="utf-8")
        return folder

    def loader(self, disabled: Collection[str] = (), core_version: str = CORE) -> Loader:
        return Loader(
            self.base, self.root, config=self.config, services=self.services, core_version=core_version,
            disabled=disabled,
        )  # fmt: skip

    def load(self, *names: str, on_load: bool = True, disabled: Collection[str] = ()) -> PluginSet:
        return self.loader(disabled).load(set(names) if names else None, on_load)


def in_fresh_process(bot: PluginBot, code: str, cwd: Path) -> str:
    """Run `code` in a new Python in `cwd`, with `finder` installed and a `loader` for the bot; return its output."""
    frame = (
        "from pathlib import Path\nfrom lumia import finder\nfrom lumia.loader import Loader\n"
        "from lumia.services import Services\nfrom tests.support.plugins import RecordingConfig\n"
        f"base, root, services = Path({str(bot.base)!r}), Path({str(bot.root)!r}), Services()\n"
        f"loader = Loader(base, root, config=RecordingConfig(), services=services, core_version={CORE!r})\n"
        "finder.install(base, root)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", frame + code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def git(folder: Path, *args: str) -> str:
    """Run git in `folder` as a committer of its own, whatever the machine's configuration says."""
    settings = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false",
                "-c", "tag.gpgsign=false", "-c", "init.defaultBranch=main")  # fmt: skip
    done = subprocess.run(["git", *settings, "-C", str(folder), *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder: Path) -> str:
    """Make `folder` a repository, commit everything in it and return the commit's id."""
    git(folder, "init", "--quiet")
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "plugin")
    return git(folder, "rev-parse", "HEAD")
