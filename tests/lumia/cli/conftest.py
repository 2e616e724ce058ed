"""A bot root with plugins, and the real `lumia` command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.workers import first_party

INLINE = '[lumia]\nbackend = "inline_backend"\n'

# A backend in the calling process: it loads the bot's plugins and executes runs while the command waits for them.
INLINE_BACKEND = """
from lumia.inmemory import InMemoryTransport
from lumia.runtime import open_bot


class Inline(InMemoryTransport):
    def wait(self, run_id, timeout):
        self.drain(self.worker)
        return super().wait(run_id, timeout)


def connect(root, limits, config):
    transport = Inline(limits)
    transport.worker = open_bot(root, load="all", transport=transport)
    transport.publish(transport.worker.install(transport.worker.plugins))
    return transport
"""


@dataclass
class Cli:
    """The command, run in `root` with `env` on top of this process's variables."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *args: str, stdin: str | bytes = "", env: Mapping[str, str] | None = None) -> Done:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        variables = {name: value for name, value in os.environ.items() if not name.startswith("LUMIA_")}
        done = subprocess.run(
            [sys.executable, "-m", "lumia", *args],
            cwd=self.root,
            input=given,
            capture_output=True,
            env={**variables, **self.env, **(env or {})},
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def configure(self, text: str = "") -> None:
        """Write lumia.toml: this text, and no first-party plugin."""
        off = json.dumps(first_party())
        (self.root / "config" / "lumia.toml").write_text(f"{text}\n[plugins]\ndisabled = {off}\n")

    def plugin(self, name: str, code: str, **manifest: Any) -> Path:
        """Write a plugin into the bot root and return its folder."""
        folder = self.root / "plugins" / name
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(json.dumps({"name": name, **manifest}))
        (folder / "plugin.py").write_text(code)
        return folder


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.out)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A bot root with an empty lumia.toml and no backend that could run anything."""
    root = tmp_path / "bot"
    (root / "config").mkdir(parents=True)
    (root / "config" / "lumia.toml").touch()
    return Cli(root)


@pytest.fixture
def lean(cli: Cli) -> Cli:
    """The same bot root without first-party plugins, which every command that loads plugins would import."""
    cli.configure()
    return cli


@pytest.fixture
def bot(lean: Cli, tmp_path: Path) -> Cli:
    """The lean bot root, with a backend that executes runs within the command itself."""
    package = tmp_path / "python" / "inline_backend"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "backend.py").write_text(INLINE_BACKEND)
    lean.env["PYTHONPATH"] = str(package.parent)
    lean.configure(INLINE)
    return lean
