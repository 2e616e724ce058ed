"""The adapter of docs/adapters.md: its files, taken from the page, pass the suite as the page says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lumia.paths import base

PAGE = (base() / "docs" / "adapters.md").read_text("utf-8")
FILE = re.compile(r"^`([\w/.-]+)`\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    for name, text in FILE.findall(PAGE):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_adapter_of_the_page_keeps_the_contract(folder: Path) -> None:
    assert sorted(path.name for path in folder.rglob("*.*") if path.is_file()) == [
        "config-schema.toml", "manifest.json", "plugin.py", "test_pager.py",
    ]  # fmt: skip
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_pager.py"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout and " failed" not in done.stdout
