"""A bot root, plugins in git repositories, a registry on loopback, and the real `pkg` command."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lumia.cli.init import create
from lumia.cli.pkg import main
from tests.support.plugin_repos import Repository, repository
from tests.support.registry import FakeRegistry, fake_registry

COMMAND = [sys.executable, "-c", "from lumia.cli.pkg import main; main()"]


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

    @property
    def lines(self) -> list[str]:
        """The lines on stdout."""
        return self.out.splitlines()


@dataclass
class Pkg:
    """The command, run in a bot root: called in this process, `real` in one of its own."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def __call__(self, *args: str, stdin: str = "") -> Done:
        out, err, code = io.StringIO(), io.StringIO(), 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(self.root)
            patch.delenv("LUMIA_ROOT", raising=False)
            patch.delenv("LUMIA_REGISTRY_URL", raising=False)
            for name, value in self.env.items():
                patch.setenv(name, value)
            patch.setattr(sys, "stdin", io.StringIO(stdin))
            patch.setattr(sys, "argv", ["pkg", *args])
            try:
                main()
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        return Done(code, out.getvalue(), err.getvalue())

    def real(self, *args: str, stdin: str = "") -> Done:
        """Run it as an operator does."""
        done = subprocess.run(
            [*COMMAND, *args],
            cwd=self.root,
            input=stdin,
            capture_output=True,
            text=True,
            env=self.variables(),
            timeout=60,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def variables(self) -> dict[str, str]:
        """Return the environment of the command."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("LUMIA_")}
        return {**own, **self.env}


@pytest.fixture
def pkg(tmp_path: Path) -> Pkg:
    """The command in a new bot root."""
    root = tmp_path / "bot"
    create(root)
    return Pkg(root)


@pytest.fixture(scope="session")
def geo(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A plugin with the versions 0.3.0 and 0.4.0, and settings."""
    made = repository(tmp_path_factory.mktemp("repositories"), "geo")
    schema = '[units]\ntype = "str"\ndefault = "metric"\ndescription = "Units"\n'
    made.release("v0.3.0", {"config-schema.toml": schema}, description="Maps")
    made.release("v0.4.0", {"config-schema.toml": schema}, description="Maps and places")
    return made


@pytest.fixture(scope="session")
def weather(geo: Repository) -> Repository:
    """A plugin that needs geo, with a hook that says something."""
    made = repository(geo.folder.parent, "weather")
    hook = {"hooks/post_install.py": "print('the sun shines')\n"}
    made.release("v1.0.0", hook, dependencies={"geo": ">=0.4"})
    return made


@pytest.fixture
def registry(pkg: Pkg, geo: Repository, weather: Repository) -> Iterator[FakeRegistry]:
    """A registry that knows both, and whose address the command has."""
    with fake_registry([geo, weather]) as server:
        pkg.env["LUMIA_REGISTRY_URL"] = server.url
        yield server
