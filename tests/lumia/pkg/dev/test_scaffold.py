"""`pkg dev init`: the files of a new plugin."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lumia.errors import PkgError
from lumia.manifest import load_manifest
from lumia.pkg.dev.project import find_project, git
from lumia.pkg.dev.scaffold import checked_name, create
from lumia.pkg.dev.testrun import has_tests, run_tests
from lumia.pkg.validate import validate


def test_a_new_plugin_passes_validation_and_its_own_tests_and_is_in_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = create(tmp_path / "my-dice", "my_dice", description="throws {dice} for the group.")
    assert {file.relative_to(tmp_path / "my-dice").as_posix() for file in made} == {
        "manifest.json", "plugin.py", "config-schema.toml", "tests/test_plugin.py", "hooks/post_install.py",
        "pyproject.toml", "README.md", ".gitignore", "LICENSE",
    }  # fmt: skip
    manifest = load_manifest(tmp_path / "my-dice")
    assert (manifest.name, manifest.author) == ("my-dice", "Ann")
    assert manifest.description == "Throws {dice} for the group."
    assert validate(tmp_path / "my-dice") == []
    assert re.search(r"^Copyright \(c\) 20\d\d Ann$", (tmp_path / "my-dice" / "LICENSE").read_text(), re.MULTILINE)
    project = find_project(tmp_path / "my-dice" / "hooks")
    assert (project.name, has_tests(project)) == ("my-dice", True)
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    assert run_tests(project) == 0
    assert git(project.folder, "status", "--porcelain") == ""
    assert git(project.folder, "log", "--format=%an %s") == "Ann New plugin\n"


def test_the_handler_fits_into_ten_lines(tmp_path: Path) -> None:
    create(tmp_path / "dice", "dice")
    code = (tmp_path / "dice" / "plugin.py").read_text()
    handler = code[code.index("@lumia") :].strip().splitlines()
    assert len(handler) <= 10


def test_its_hook_runs_with_what_hooks_get(tmp_path: Path) -> None:
    create(tmp_path / "dice", "dice")
    hook = tmp_path / "dice" / "hooks" / "post_install.py"
    env = {"PLUGIN_NAME": "dice", "PLUGIN_VERSION": "v0.1.0"}
    done = subprocess.run([sys.executable, "-I", hook], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "dice v0.1.0 is there: write !dice in a chat\n"


@pytest.mark.parametrize(
    "name, usable",
    [("My Dice", "my-dice"), ("Würfel 2", "wurfel-2"), ("3d-dice", "d-dice"), ("骰子", ""), ("lumia", ""), ("-", "")],
)
def test_a_name_that_is_none_is_refused_with_one_that_would_do(name: str, usable: str) -> None:
    with pytest.raises(PkgError, match=re.escape(repr(name.replace("_", "-")))) as refused:
        checked_name(name)
    assert str(refused.value).partition("; try ")[2] == (repr(usable) if usable else "")


def test_a_used_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(PkgError, match="isn't an empty folder"):
        create(tmp_path, "dice")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_author_whom_git_does_not_know_commits_later(tmp_path: Path) -> None:
    Path.home().joinpath(".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    create(tmp_path / "dice", "dice")
    assert git(tmp_path / "dice", "diff", "--cached", "--name-only").split()
    with pytest.raises(PkgError, match="git log"):
        git(tmp_path / "dice", "log")
