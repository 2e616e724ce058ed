"""A plugin as its author has it, and a talk with it in a real process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lumia.pkg.dev.notices import Answer, Notice
from lumia.pkg.dev.project import Project, find_project, git
from lumia.pkg.dev.sandbox import Bounds
from lumia.pkg.dev.session import Session
from lumia.pkg.dev.trial import Trial
from tests.support.wait import until


def write_plugin(folder: Path, code: str, **manifest: Any) -> Project:
    """Write a plugin into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.json").write_text(json.dumps({"name": "tried", "license": "MIT", **manifest}))
    (folder / "plugin.py").write_text(code)
    (folder / "LICENSE").write_text("MIT\n")
    return find_project(folder)


def commit(project: Project, *tags: str) -> None:
    """Commit everything, and tag that."""
    if not (project.folder / ".git").exists():
        git(project.folder, "init", "--quiet", "--initial-branch=main")
    git(project.folder, "add", "--all")
    git(project.folder, "commit", "--quiet", "--allow-empty", "--message", "Change something")
    for tag in tags:
        git(project.folder, "tag", tag)


@pytest.fixture(autouse=True)
def author(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An author whom git knows, and no settings of whoever runs the tests."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # what is there for pytest takes seconds to import
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@example.org\n")


class Talk:
    """A session and everything it told."""

    def __init__(self, session: Session, told: list[Notice]) -> None:
        self.session, self.told = session, told

    def say(self, text: str, **where: str) -> Answer:
        """Say something and wait for the end of it."""
        self.session.wait()
        answer = self.session.say(text, **where)
        assert answer.over.wait(30)
        return answer

    def hear(self, kind: str, text: str = "") -> Notice:
        """Wait for a notice, and forget it and what came before it."""

        def heard() -> list[Notice]:
            return [notice for notice in self.told if notice.kind == kind and text in notice.text]

        found = until(heard, timeout=20, what=kind)[0]
        del self.told[: self.told.index(found) + 1]
        return found


@contextmanager
def talking(project: Project, *beside: str, bounds: Bounds | None = None, watch: bool = False) -> Iterator[Talk]:
    """Talk with a plugin; no process and no folder is left behind."""
    told: list[Notice] = []
    trial = Trial(project, beside)
    threads = set(threading.enumerate())
    with Session(trial, told.append, bounds=bounds, watch=watch) as session:
        yield Talk(session, told)
    trial.close()
    assert not trial.root.exists()
    until(lambda: not {thread for thread in threading.enumerate() if thread.name.startswith("lumia-")} - threads)
