"""`pkg dev pack`: a plugin without its source, as bytecode for one version of Python each (spec §7.1, §13.2).

Names of functions and variables, texts and docstrings are in bytecode, too; comments and the files' paths are not.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lumia.errors import PkgError
from lumia.manifest import MANIFEST_FILE
from lumia.pkg.dev.project import Project, git, is_repository, plugin_files, tag_at_head
from lumia.pkg.dev.release import changes
from lumia.pkg.dev.testrun import is_test

UNTAGGED = "untagged"
PYTHON_KEY = "x-python"
"""The manifest's own key that tells for which Python the bytecode is."""
_LEFT_OUT = frozenset({"pyproject.toml", "ruff.toml", "pytest.ini", "tox.ini", "dev.toml", "setup.cfg"})
_SECONDS = 120.0
# Runs in the Python that is packed for, which needs nothing but its standard library.
_COMPILE = """
import json, py_compile, sys
wrong = []
for source, target, shown in json.load(sys.stdin):
    try:
        py_compile.compile(source, target, shown, True, 0, py_compile.PycInvalidationMode.UNCHECKED_HASH)
    except py_compile.PyCompileError as error:
        value = error.exc_value
        wrong.append([shown, getattr(value, "lineno", None), getattr(value, "msg", None) or str(value)])
name = {"cpython": "cp", "pypy": "pp"}.get(sys.implementation.name, sys.implementation.name)
print(json.dumps({"tag": f"{name}{sys.version_info[0]}{sys.version_info[1]}", "wrong": wrong}))
"""


@dataclass(frozen=True)
class Packed:
    """A packed plugin. python: `cp311`. files: number of files in `folder`."""

    folder: Path
    python: str
    files: int


def pack(project: Project, pythons: Sequence[str] = (), into: Path | None = None) -> list[Packed]:
    """Write `<name>-<tag>-<python>` into `into` (default: the plugin's `dist`) for each Python and return them.

    pythons: interpreters by name or path; this one when none is named. The tag is the version tag at the commit, or
    `untagged` while there is none or files have changed since. Raises `PkgError` for code that does not compile.
    """
    manifest = project.manifest()
    if manifest.closed_source or manifest.main.endswith(".pyc"):
        raise PkgError(f"{project.name} is packed already: its manifest says closed_source, or names a .pyc as main")
    target = into or project.folder / "dist"
    return [_packed(project, target, python) for python in pythons or [sys.executable]]


def label(project: Project) -> str:
    """Return the tag the packed files stand for."""
    tag = tag_at_head(project.folder)
    if tag is None or git(project.folder, "status", "--porcelain", "--", ".", ":!dist").strip():
        return UNTAGGED
    return tag


def _packed(project: Project, target: Path, python: str) -> Packed:
    program = shutil.which(python)
    if program is None:
        raise PkgError(f"no Python {python!r} on PATH; name an interpreter like python3.12, or its path")
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".packing-", dir=target) as staging:
        fresh = Path(staging) / "plugin"
        files = [file for file in plugin_files(project.folder) if _is_shipped(file)]
        for file in files:
            (fresh / file).parent.mkdir(parents=True, exist_ok=True)
            if not file.endswith(".py"):
                shutil.copyfile(project.folder / file, fresh / file)
        made = _compiled(project, program, fresh, [file for file in files if file.endswith(".py")])
        _write_manifest(project.folder, fresh, made)
        folder = target / f"{project.name}-{label(project)}-{made}"
        shutil.rmtree(folder, ignore_errors=True)
        fresh.rename(folder)
    return Packed(folder, made, len(files))


def _is_shipped(file: str) -> bool:
    return file not in _LEFT_OUT and not is_test(file) and not file.endswith(".pyc")


def _compiled(project: Project, program: str, fresh: Path, sources: list[str]) -> str:
    """Compile `sources` into folder `fresh` and return the short name of that Python."""
    jobs = [(str(project.folder / file), str(fresh / f"{file}c"), file) for file in sources]
    try:
        done = subprocess.run(
            [program, "-I", "-c", _COMPILE], input=json.dumps(jobs), capture_output=True, text=True,
            timeout=_SECONDS, check=True,
        )  # fmt: skip
        told: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        said = " ".join((getattr(error, "stderr", None) or str(error)).split())
        raise PkgError(f"{program} can't compile the plugin: {said}") from error
    if told["wrong"]:
        file, line, message = told["wrong"][0]
        raise PkgError(f"{project.file(file)}:{line}: {message} ({told['tag']})")
    return str(told["tag"])


def _write_manifest(source: Path, fresh: Path, python: str) -> None:
    data = json.loads((source / MANIFEST_FILE).read_text("utf-8-sig"))
    data |= {"main": "plugin.pyc", "closed_source": True, PYTHON_KEY: python}
    (fresh / MANIFEST_FILE).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")


def commit_into(packed: Packed, repository: Path, project: Project, tag: str) -> None:
    """Make the packed files the whole content of a git repository, new or used before, commit and tag them.

    What is new is said as the tag of the source says it. Raises `PkgError` when the repository has changes of its own,
    or that tag.
    """
    repository.mkdir(parents=True, exist_ok=True)
    if not is_repository(repository):
        if any(repository.iterdir()):
            raise PkgError(f"{repository} is no git repository and not empty; name a new folder, or a repository")
        git(repository, "init", "--quiet", "--initial-branch=main")
    if git(repository, "status", "--porcelain").strip():
        raise PkgError(f"{repository} has changes that are in no commit; commit or remove them")
    if tag in git(repository, "tag", "--list").split():
        raise PkgError(f"{repository} has the tag {tag} already; tag the next version of the plugin, and pack that")
    for entry in repository.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    shutil.copytree(packed.folder, repository, dirs_exist_ok=True)
    git(repository, "add", "--all", "--force")
    git(repository, "commit", "--quiet", "--no-verify", "--message", f"{project.name} {tag} for {packed.python}")
    text = f"{project.name} {tag}\n\n{changes(project, tag)}"
    git(repository, "tag", "--annotate", "--cleanup=verbatim", "--message", text, tag)
