"""A plugin from a folder on this disk: the tag at its HEAD, or a snapshot of what lies there.

The folder may be a stranger's, so its `.git` gets nothing to say: git sees the files through a repository of ours.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from lumia.errors import SourceError
from lumia.pkg.git import Git
from lumia.pkg.git_checkout import neutralise, settle
from lumia.pkg.git_process import GitFailed, run
from lumia.pkg.text import plain
from lumia.pkg.tree import LINK, PROGRAM, Limits, check_listed

_SECONDS = 60.0
_EXCLUDED = "__pycache__/\n"
_AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "lumia pkg"), ("EMAIL", "pkg@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}


@dataclass(frozen=True)
class State:
    """What a folder holds. commit: of HEAD, None without a repository. tag: the highest version tag there.

    changed: files that differ from HEAD. files: all of the plugin's: what git ignores and `__pycache__` are not.
    """

    files: tuple[str, ...]
    commit: str | None = None
    tag: str | None = None
    changed: tuple[str, ...] = ()


def url_of(folder: Path) -> str:
    """Return the URL by which git reads the repository in `folder`."""
    return "file://" + quote(str(folder.absolute()))


def state_of(source: Path, git: Git) -> State:
    """Return what `source` holds. Raises `SourceError` when git can't tell."""
    commit = tag = None
    with _reading(source) as command:
        if (source / ".git").exists():
            commit = git.head(url_of(source))
            at_head = [one.name for one in git.tags(url_of(source)) if one.commit == commit]
            tag = at_head[-1] if at_head else None
            run([*command, "fetch", "-q", "--no-tags", "--depth=1", "--", url_of(source), commit], timeout=_SECONDS)
            run([*command, "read-tree", commit], timeout=_SECONDS)
            run([*command, "update-index", "-q", "--refresh", "--ignore-submodules"], timeout=_SECONDS)
            changed = _names(command, "diff-files", "-z", "--name-only", "--ignore-submodules=all")
            changed += _names(command, "ls-files", "-z", "--others", "--exclude-standard")
        else:
            changed = []
        files = _names(command, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    present = tuple(sorted(name for name in set(files) if os.path.lexists(source / name)))
    return State(present, commit, tag, tuple(sorted(set(changed))))


@contextmanager
def _reading(source: Path) -> Iterator[list[str]]:
    """Give the beginning of git commands that look at the files of `source` through an empty repository of ours."""
    try:
        with tempfile.TemporaryDirectory(prefix="lumia-pkg-") as scratch:
            run(["init", "-q", "--template=", "--", scratch], timeout=_SECONDS)
            _exclude(Path(scratch))
            yield ["--git-dir", f"{scratch}/.git", "--work-tree", str(source)]
    except GitFailed as error:
        raise SourceError(f"{plain(str(source))}: git can't read the folder: {error.text}") from None


def _exclude(folder: Path) -> None:
    neutralise(folder)
    (folder / ".git" / "info" / "exclude").write_text(_EXCLUDED, encoding="ascii")


def _names(command: list[str], *args: str) -> list[str]:
    out = run([*command, *args], timeout=_SECONDS)
    return [os.fsdecode(name) for name in out.split(b"\0") if name]


def take(source: Path, state: State, folder: Path, limits: Limits) -> str:
    """Copy the plugin's files as they are into the new `folder`, commit them there, and return the commit.

    The same files give the same commit. Raises `SourceError`, and `UnsafePackageError` before anything is copied.
    """
    listed = check_listed(source, state.files, limits)
    command = ["--git-dir", str(folder / ".git"), "--work-tree", str(folder)]
    try:
        run(["init", "-q", "--template=", "--", str(folder)], timeout=_SECONDS)
        _exclude(folder)
        for entry in listed:
            _copy(source / entry.path, folder / entry.path, entry.mode)
        run([*command, "add", "-A", "-f"], timeout=_SECONDS)
        words = ["-q", "--no-verify", "--allow-empty", "-m", "A snapshot of the plugin's folder"]
        run([*command, "commit", *words], timeout=_SECONDS, env=_AUTHOR)
        run([*command, "checkout", "-q", "--detach"], timeout=_SECONDS)
        run([*command, "branch", "-q", "-D", "main"], timeout=_SECONDS)
        commit = run([*command, "rev-parse", "HEAD"], timeout=_SECONDS).decode().strip()
    except GitFailed as error:
        raise SourceError(f"{plain(str(source))}: its files can't be committed in {folder}: {error.text}") from None
    except OSError as error:
        raise SourceError(f"{plain(str(error.filename))} can't be copied to {folder}: {error.strerror}") from error
    settle(folder, url_of(source))
    return commit


def _copy(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode == LINK:
        target.symlink_to(os.readlink(source))
        return
    with open(os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SourceError(f"{source} was changed while it was read; try again")
        target.write_bytes(file.read())
    target.chmod(0o755 if mode == PROGRAM else 0o644)


def warning(source: Path, state: State) -> str:
    """Return why a folder is installed as a snapshot, and what would make it a version."""
    where = plain(str(source), 120)
    if state.commit is None:
        return (
            f"{where} is no git repository; it is installed as it is, without a version. For one: git init, commit, tag"
        )
    if state.changed:
        names = ", ".join(plain(name, 60) for name in state.changed[:3])
        names += f" and {len(state.changed) - 3} more" if len(state.changed) > 3 else ""
        return f"{where} holds changes that aren't committed ({names}); it is installed as it is, without a version"
    return f"{where} has no version tag at its commit; it is installed as it is. For one: git -C {where} tag v0.1.0"
