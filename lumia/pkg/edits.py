"""What somebody changed by hand in an installed plugin: file by file, against the commit that was installed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lumia.atomic import sync_folder
from lumia.errors import OperationError
from lumia.pkg.repository import Repository

_NOT_OURS = frozenset({".git", "__pycache__"})


@dataclass(frozen=True)
class Edit:
    """A file that isn't as it was installed. file: relative to the plugin's folder."""

    kind: Literal["edited", "added", "missing"]
    file: str


def found(folder: Path, commit: str) -> list[Edit]:
    """Return how the files of `folder` differ from its commit; what the plugin lets git ignore is no edit.

    Raises `OperationError` when the folder's repository doesn't know the commit.
    """
    return compared(folder, commit)[0]


def compared(folder: Path, commit: str) -> tuple[list[Edit], list[str]]:
    """Return `found`, and what the plugin lets git ignore: files that it made itself while it ran."""
    installed = dict(_committed(folder, commit))
    here = dict(_present(folder))
    edits = [Edit("missing", file) for file in installed if file not in here]
    edits += [Edit("edited", file) for file, was in installed.items() if here.get(file, was) != was]
    added = [file for file in here if file not in installed]
    ignored = _ignored(folder, added) if added else frozenset()
    edits += [Edit("added", file) for file in added if file not in ignored]
    return sorted(edits, key=lambda edit: edit.file), sorted(ignored)


def patch(folder: Path, commit: str, index: Path) -> bytes:
    """Return the edits as a binary patch that `git apply` takes. index: a file for an index of our own."""
    inner = Repository(folder)
    inner.git("read-tree", commit, index=index)
    pathspec = ("--", ".", ":(exclude,glob)**/__pycache__/**")
    inner.git("add", "--all", *pathspec, index=index)
    return inner.git(
        "diff", "--cached", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", commit, index=index
    )


def _committed(folder: Path, commit: str) -> Iterator[tuple[str, tuple[str, str]]]:
    if not (folder / ".git").exists():
        raise OperationError(f"{folder} is no git repository any more, so nobody can tell what was edited in it")
    for line in Repository(folder).git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        about, _, path = line.partition(b"\t")
        mode, _, sha = about.decode().split(" ")
        yield os.fsdecode(path), (mode, sha)


def _present(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        folders[:] = [name for name in folders if name not in _NOT_OURS and name not in links]
        for name in (*names, *links):
            path = Path(parent, name)
            if name not in _NOT_OURS:
                yield path.relative_to(folder).as_posix(), _blob(path)


def _blob(path: Path) -> tuple[str, str]:
    """Return mode and id that git gives a file; the filters that a repository may ask for don't count."""
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "120000", _sha(os.fsencode(path.readlink()))
    if not stat.S_ISREG(status.st_mode):
        return "special", ""
    try:
        return "100755" if status.st_mode & 0o100 else "100644", _sha(path.read_bytes())
    except OSError:
        return "unreadable", ""


def _sha(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _ignored(folder: Path, names: list[str]) -> frozenset[str]:
    given = b"".join(os.fsencode(name) + b"\0" for name in names)
    # --no-index: the plugin's own index may be absent; core.excludesFile is the machine's, not the plugin's.
    shown = Repository(folder).git(
        "-c", f"core.excludesFile={os.devnull}", "check-ignore", "--no-index", "-z", "--stdin", given=given, ok=(0, 1)
    )
    return frozenset(os.fsdecode(name) for name in shown.split(b"\0") if name)


def carry(old: Path, new: Path, names: Iterable[str]) -> None:
    """Copy what the plugin had made itself to its new version, as a checkout would have kept it."""
    import shutil

    for name in names:
        source, target = old / name, new / name
        if os.path.lexists(target) or source.is_symlink() or not source.is_file():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)
        with target.open("rb") as file:
            os.fsync(file.fileno())
        sync_folder(target.parent)
