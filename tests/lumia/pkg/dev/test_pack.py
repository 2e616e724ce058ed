"""`pkg dev pack`: a plugin without its source."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from lumia.errors import PkgError
from lumia.pkg.dev.pack import commit_into, label, pack
from lumia.pkg.dev.probe import problem_of
from lumia.pkg.dev.project import Project, git, tag_at_head
from lumia.testing import Bot
from tests.lumia.pkg.dev.conftest import commit, write_plugin

HERE = f"cp{sys.version_info[0]}{sys.version_info[1]}"
CODE = """
import lumia
from .words import WORD


@lumia.pipe.on("msg")
def answer(content: lumia.Box) -> None:
    msg = content.into()
    lumia.event.start(lumia.payloads.reply_to(msg), lumia.Box.any({"text": WORD}, meta={"account": msg["account"]}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = write_plugin(tmp_path / "tried", CODE, **{"x-mine": 1})
    files = {
        "words.py": 'WORD = "secret sauce"  # no comment\n',
        "hooks/post_install.py": "print('hello')\n",
        "tests/test_plugin.py": "",
        "test_more.py": "",
        "pyproject.toml": "",
        "config-schema.toml": "",
        "data/list.json": "[]",
        "README.md": "# Tried",
    }
    for name, text in files.items():
        (made.folder / name).parent.mkdir(exist_ok=True)
        (made.folder / name).write_text(text)
    return made


def test_the_packed_plugin_has_no_source_and_no_tests_and_answers(project: Project) -> None:
    commit(project, "v1.2.0")
    (packed,) = pack(project)
    assert packed.folder == project.folder / "dist" / f"tried-v1.2.0-{HERE}"
    assert {file.relative_to(packed.folder).as_posix() for file in packed.folder.rglob("*") if file.is_file()} == {
        "manifest.json", "plugin.pyc", "words.pyc", "hooks/post_install.pyc", "config-schema.toml", "data/list.json",
        "README.md", "LICENSE",
    }  # fmt: skip
    manifest = json.loads((packed.folder / "manifest.json").read_text())
    assert manifest == {
        "name": "tried", "license": "MIT", "x-mine": 1, "main": "plugin.pyc", "closed_source": True, "x-python": HERE,
    }  # fmt: skip
    code = (packed.folder / "words.pyc").read_bytes()
    assert b"comment" not in code
    assert str(project.folder).encode() not in code
    with Bot(packed.folder) as bot:
        assert bot.send("hi").replies == ["secret sauce"]


def test_packing_twice_gives_the_same_bytes(project: Project) -> None:
    commit(project, "v1.0.0")
    first, second = ({f.name: f.read_bytes() for f in pack(project)[0].folder.rglob("*.*")} for _ in range(2))
    assert first == second


def test_what_is_no_tagged_commit_is_not_called_by_a_tag(project: Project) -> None:
    assert label(project) == "untagged"
    commit(project, "v1.0.0")
    assert label(project) == "v1.0.0"
    (project.folder / "words.py").write_text("WORD = 1")
    assert pack(project)[0].folder.name == f"tried-untagged-{HERE}"


def test_code_that_does_not_compile_is_named_with_its_line(project: Project) -> None:
    (project.folder / "words.py").write_text("WORD = (\n")
    with pytest.raises(PkgError, match=rf"words\.py:1: .*never closed.* \({HERE}\)"):
        pack(project)
    assert list((project.folder / "dist").iterdir()) == []


def test_a_python_that_is_not_there_or_none_is_refused(project: Project, tmp_path: Path) -> None:
    with pytest.raises(PkgError, match=r"no Python 'python2\.4' on PATH"):
        pack(project, ["python2.4"])
    with pytest.raises(PkgError, match="can't compile the plugin"):
        pack(project, ["false"])


def test_a_packed_plugin_is_not_packed_again(project: Project) -> None:
    (packed,) = pack(project)
    with pytest.raises(PkgError, match="packed already"):
        pack(Project(packed.folder, "tried"))


def test_packed_versions_fill_a_repository_of_their_own(project: Project, tmp_path: Path) -> None:
    commit(project, "v1.0.0")
    target = tmp_path / "closed"
    commit_into(pack(project)[0], target, project, "v1.0.0")
    assert tag_at_head(target) == "v1.0.0"
    (project.folder / "data" / "list.json").unlink()
    commit(project, "v1.1.0")
    commit_into(pack(project)[0], target, project, "v1.1.0")
    assert git(target, "tag", "-l", "--format=%(contents)", "v1.1.0").strip() == "tried v1.1.0\n\n- Change something"
    assert "plugin.pyc" in git(target, "ls-files").split()
    assert "data/list.json" not in git(target, "ls-files").split()
    assert len(git(target, "log", "--format=%s").splitlines()) == 2
    with pytest.raises(PkgError, match=r"has the tag v1\.1\.0 already"):
        commit_into(pack(project)[0], target, project, "v1.1.0")
    (target / "plugin.pyc").write_bytes(b"")
    with pytest.raises(PkgError, match="changes that are in no commit"):
        commit_into(pack(project)[0], target, project, "v1.2.0")
    with pytest.raises(PkgError, match="no git repository and not empty"):
        commit_into(pack(project)[0], tmp_path, project, "v1.2.0")


def test_what_does_not_load_is_told_with_its_place(project: Project) -> None:
    (project.folder / "words.py").write_text("WROD = 1\n")
    (packed,) = pack(project)
    problem = problem_of(packed.folder)
    assert problem is not None
    assert re.search(r"plugin\.pyc:3: ImportError: cannot import name 'WORD'", problem), problem
