"""`lumia init`: a new bot root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.lumia.cli.conftest import Cli

OUTSIDE = Cli(Path(os.sep))


def test_the_new_bot_root_holds_what_the_specification_names(tmp_path: Path) -> None:
    done = OUTSIDE("init", str(tmp_path / "mybot"))
    root = tmp_path / "mybot"
    assert (done.code, done.out) == (0, f"{root}\n")
    assert tomllib.loads((root / "config" / "lumia.toml").read_text())["lumia"]["backend"] == "tasks"
    assert (root / "plugins" / ".git").is_dir()
    assert (root / "plugins" / "hello" / "manifest.json").is_file()
    assert (root / "plugins" / "hello" / "README.md").is_file()
    assert (root / "data").stat().st_mode & 0o777 == 0o700


def test_its_plugins_load_and_the_example_is_among_them(tmp_path: Path) -> None:
    OUTSIDE("init", str(tmp_path / "mybot"))
    done = Cli(tmp_path / "mybot")("plugins", "--json")
    assert (done.code, "hello" in [row["name"] for row in done.json]) == (0, True), done


def test_the_tests_of_the_example_pass_there(tmp_path: Path) -> None:
    OUTSIDE("init", str(tmp_path / "mybot"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "plugins"]
    done = subprocess.run(command, cwd=tmp_path / "mybot", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_empty_folder_is_fine_and_a_used_one_is_refused(tmp_path: Path) -> None:
    assert OUTSIDE("init", str(tmp_path)).code == 0
    again = OUTSIDE("init", str(tmp_path))
    assert (again.code, "is a bot root already" in again.err) == (1, True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    used = OUTSIDE("init", str(tmp_path / "other"))
    assert (used.code, "is not empty" in used.err) == (1, True)
    assert "is a file" in OUTSIDE("init", str(tmp_path / "other" / "file")).err


def test_without_git_the_root_is_made_all_the_same(tmp_path: Path) -> None:
    done = OUTSIDE("init", str(tmp_path / "mybot"), env={"PATH": str(tmp_path)})
    assert (done.code, "git init" in done.err) == (0, True)
    assert (tmp_path / "mybot" / "plugins" / "hello").is_dir()


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    blocked = Path("/proc/mybot") if os.geteuid() == 0 and Path("/proc").is_dir() else tmp_path / "mybot"
    done = OUTSIDE("init", str(blocked))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert str(blocked) in done.err
