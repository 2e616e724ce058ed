"""Compile once what the many processes of a test run import, also where PYTHONDONTWRITEBYTECODE is set.

The tests start many processes. Without bytecode beside the sources each of them compiles the project anew, and
each process of pytest-xdist rewrites the assertions of every test file.
"""

from __future__ import annotations

import compileall
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from lumia import finder
from lumia.paths import base

MODULES = ("lumia", "tasks", "bench", "tests/support")
PLUGINS = ("handlers", "adapters", "plugins")


def product() -> None:
    """Write the bytecode of the project's own modules that is missing or stale.

    Plugins are imported by Lumia's own finder, which knows its bytecode by the content of the source.
    """
    for folder in MODULES:
        compileall.compile_dir(base() / folder, quiet=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", False)
        for file in (file for folder in PLUGINS for file in (base() / folder).rglob("*.py")):
            with suppress(OSError, SyntaxError):
                finder._Source("plugin", str(file)).get_code("plugin")


def test_files() -> list[Path]:
    """Return every file whose assertions pytest rewrites."""
    tops = (base() / "tests", base() / "plugins")
    return sorted(file for top in tops for name in ("test_*.py", "conftest.py") for file in top.rglob(name))


def rewrite(files: Sequence[Path], config: pytest.Config) -> None:
    """Put these files into the cache that pytest's import hook reads; pytest writes it itself only one by one.

    The functions are pytest's own, without a promise; where they changed this does nothing and the run is only slower.
    """
    try:
        from _pytest.assertion import rewrite as pytests
    except ImportError:
        return
    with suppress(AttributeError, TypeError, ValueError, KeyError):
        for file in files:
            folder = pytests.get_cache_dir(file)
            cached = folder / (file.stem + pytests.PYC_TAIL)
            with suppress(OSError, SyntaxError):  # collecting the file tells it better
                if not _newer(cached, file) and pytests.try_makedirs(folder):
                    digest, code = pytests._rewrite_test(file, config)
                    pytests._write_pyc(config.stash[pytests.assertstate_key], code, digest, cached)


def _newer(cached: Path, file: Path) -> bool:
    # Where this errs pytest, which compares the content, rewrites the file itself.
    return cached.exists() and cached.stat().st_mtime_ns > file.stat().st_mtime_ns
