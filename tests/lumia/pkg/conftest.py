"""A plugin's repository, made once and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.repositories import Repository, repository


@pytest.fixture(scope="session")
def made_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that `repo` copies."""
    made = repository(tmp_path_factory.mktemp("made") / "dice", tag="v0.1.0")
    made.commit({"plugin.py": "x = 2\n"}, tag="v0.2.0", message="The second")
    return made.folder


@pytest.fixture
def repo(made_repository: Path, tmp_path: Path) -> Repository:
    """The repository of the plugin `dice` with the tags v0.1.0 and v0.2.0 (annotated)."""
    return Repository(Path(shutil.copytree(made_repository, tmp_path / "dice", symlinks=True)))
