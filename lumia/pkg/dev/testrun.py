"""`pkg dev test`: the plugin's own tests, with `lumia.testing`, in a process that knows no real bot."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from lumia.errors import PkgError
from lumia.paths import base
from lumia.pkg.dev.project import Project, plugin_files
from lumia.pkg.dev.sandbox import environment

STDERR = 2
NOTHING_FOUND = 5
"""pytest's exit code when it collected no test."""


def has_tests(project: Project) -> bool:
    """Tell whether the plugin brings tests."""
    return any(is_test(file) for file in plugin_files(project.folder))


def is_test(file: str) -> bool:
    """Tell whether a file of a plugin belongs to its tests. file: POSIX path from the plugin's folder."""
    *folders, name = file.split("/")
    stem, dot, ending = name.rpartition(".")
    named = stem.startswith("test_") or stem.endswith("_test") or stem == "conftest"
    return "tests" in folders or bool(dot and ending == "py" and named)


def run_tests(project: Project, arguments: Sequence[str] = (), *, aside: bool = False) -> int:
    """Run pytest in the plugin's folder, on this process's terminal, and return its exit code.

    arguments: for pytest. aside: what it prints goes to stderr, for stdout is the command's answer. Raises
    `PkgError` when the plugin has no tests or pytest isn't installed.
    """
    if not has_tests(project):
        raise PkgError(
            f"{project.name} has no tests; put them into {project.file('tests')}/test_plugin.py (docs/testing.md)"
        )
    if find_spec("pytest") is None:
        raise PkgError(f"pytest is not installed here, a bot runs without it; {_way_out()}")
    # -P: a module of the plugin must not hide one of Python's own.
    command = [sys.executable, "-P", "-m", "pytest", *(arguments or ("-q",))]
    out = STDERR if aside else None
    return subprocess.run(command, cwd=project.folder, env=environment(), stdout=out, check=False).returncode


def _way_out() -> str:
    """Return what installs pytest for this Python; in a checkout that is a target of its Makefile."""
    pip = f"`{sys.executable} -m pip install 'lumia[testing]'`"
    return f"run `make setup` in {base()}, or {pip}" if (base() / "Makefile").is_file() else f"run {pip}"
