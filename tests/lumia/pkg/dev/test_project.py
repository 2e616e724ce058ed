"""The plugin as its author has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lumia.errors import PkgError
from lumia.pkg.dev.project import find_project, git, missing_packages, plugin_files, tag_at_head
from tests.lumia.pkg.dev.conftest import commit, write_plugin


def test_the_nearest_folder_with_a_manifest_is_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = write_plugin(tmp_path / "a-clone", "")
    (project.folder / "deep" / "er").mkdir(parents=True)
    found = find_project(project.folder / "deep" / "er")
    assert (found.folder, found.name) == (tmp_path / "a-clone", "tried")
    monkeypatch.chdir(tmp_path)
    assert found.file("plugin.py") == "a-clone/plugin.py"
    monkeypatch.chdir(project.folder / "deep")
    assert found.file("plugin.py") == str(tmp_path / "a-clone" / "plugin.py")


def test_a_folder_of_another_project_is_no_plugin(tmp_path: Path) -> None:
    write_plugin(tmp_path, "")
    (tmp_path / "inner" / ".git").mkdir(parents=True)
    with pytest.raises(PkgError, match="pkg dev init NAME"):
        find_project(tmp_path / "inner")


def test_a_broken_manifest_still_has_a_folder_to_name_it_by(tmp_path: Path) -> None:
    (tmp_path / "my_dice").mkdir()
    (tmp_path / "my_dice" / "manifest.json").write_text("{")
    assert find_project(tmp_path / "my_dice").name == "my-dice"


def test_packages_that_are_not_here_are_listed_as_pip_takes_them(tmp_path: Path) -> None:
    asked = ["pydantic>=2", "pydantic>=99", "no-such-package-here", "no-such-package-here ; python_version < '3'"]
    manifest = write_plugin(tmp_path, "", python_dependencies=asked).manifest()
    assert missing_packages(manifest) == asked[1:3]


def test_what_git_ignores_and_what_is_hidden_is_no_part_of_the_plugin(tmp_path: Path) -> None:
    project = write_plugin(tmp_path / "tried", "")
    for file in (".hidden", "dist/old.txt", "__pycache__/x.pyc", "data/words.txt", "notes.tmp"):
        (project.folder / file).parent.mkdir(exist_ok=True)
        (project.folder / file).write_text("x")
    assert plugin_files(project.folder) == ["LICENSE", "data/words.txt", "manifest.json", "notes.tmp", "plugin.py"]
    git(project.folder, "init", "--quiet")
    (project.folder / ".gitignore").write_text("*.tmp\n")
    assert plugin_files(project.folder) == ["LICENSE", "data/words.txt", "manifest.json", "plugin.py"]


def test_the_highest_version_tag_at_the_commit_counts(tmp_path: Path) -> None:
    project = write_plugin(tmp_path, "")
    assert tag_at_head(project.folder) is None
    commit(project, "v0.9.0", "v0.10.0", "latest")
    assert tag_at_head(project.folder) == "v0.10.0"
    commit(project)
    assert tag_at_head(project.folder) is None


def test_git_speaks_for_itself_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PkgError, match=r"git log in .* failed: fatal: not a git repository"):
        git(tmp_path, "log")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PkgError, match="git is not on PATH"):
        git(tmp_path, "log")
