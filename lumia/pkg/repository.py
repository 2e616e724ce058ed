"""plugins/ as a git repository whose history is that of the installations (spec §7.1).

Only plumbing commands are used, with an index of our own: what somebody staged, or keeps untracked in plugins/, is
neither committed nor touched, no hook of the repository runs, and the one moment that counts is the move of its branch.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from lumia.errors import OperationError
from lumia.manifest import underscored
from lumia.pkg import files
from lumia.pkg.layout import LOCK_FILE
from lumia.pkg.lockfile import Lock
from lumia.pkg.text import plain

TRAILER = "Lumia-Operation"
_SECONDS = 60
_NOTHING = "0" * 40
_SETTINGS = (
    "safe.directory=*",  # of another user is fine: its code is about to run anyway
    "core.hooksPath=/dev/null",
    "core.fsmonitor=",
    "core.fsync=all",
    "core.quotePath=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "init.defaultBranch=main",
)


class Repository:
    """The git repository in `folder`. keep: a descriptor that its commands inherit, so that a lock outlives us."""

    def __init__(self, folder: Path, *, keep: int | None = None) -> None:
        self.folder = folder
        self._keep = () if keep is None else (keep,)
        self._blobs: dict[str, str] = {}

    @property
    def there(self) -> bool:
        """Tell whether `folder` itself is a repository; one further up is not meant."""
        return os.path.lexists(self.folder / ".git")

    def git(self, *arguments: str, given: bytes = b"", index: Path | None = None, ok: Iterable[int] = (0,)) -> bytes:
        """Run a command of git and return what it printed; raises `OperationError` with what it complained of.

        given: its standard input. index: file to use in the place of the repository's index.
        """
        git = _git(os.environ.get("PATH", os.defpath))
        if git is None:
            raise OperationError("git is not on PATH, and plugins are git repositories; install git")
        settings = (part for setting in _SETTINGS for part in ("-c", setting))
        try:
            done = subprocess.run(
                [git, *settings, *arguments], cwd=self.folder, env=_environment(self.folder, index), input=given,
                capture_output=True, timeout=_SECONDS, pass_fds=self._keep, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OperationError(f"{self.folder}: `git {arguments[0]}` failed: {error}") from error
        if done.returncode not in ok:
            why = plain(done.stderr.decode("utf-8", "replace") or f"it ended with {done.returncode}", 500)
            raise OperationError(f"{self.folder}: `git {arguments[0]}` failed: {why}")
        return done.stdout

    def init(self) -> None:
        """Make an empty repository."""
        self.git("init", "--quiet", "--template=", ".")
        files.sync_tree(self.folder / ".git")

    def branch(self) -> str:
        """Return the ref that a commit moves: the branch that is checked out, `HEAD` when none is."""
        return self.git("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).decode().strip() or "HEAD"

    def head(self) -> str | None:
        """Return the commit that is checked out; None before the first one."""
        return self.git("rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1)).decode().strip() or None

    def record(self, lock: Lock, gone: Iterable[str], message: str, index: Path, parent: str | None) -> str:
        """Return a new commit on `parent` in which plugins/ holds `lock`; it is on no branch yet.

        gone: plugins that are no longer there. index: a file for the index of our own.
        """
        self.git(*(("read-tree", parent) if parent else ("read-tree", "--empty")), index=index)
        self._enter(lock, gone, index)
        tree = self.git("write-tree", index=index).decode().strip()
        parents = ("-p", parent) if parent else ()
        return self.git("commit-tree", tree, *parents, "-F", "-", given=message.encode()).decode().strip()

    def enter(self, lock: Lock, gone: Iterable[str]) -> None:
        """Make the repository's own index say the same, so that `git status` shows no difference."""
        self._enter(lock, gone, None)

    def _enter(self, lock: Lock, gone: Iterable[str], index: Path | None) -> None:
        text = lock.text()
        blob = self._blobs.get(text) or self.git("hash-object", "-w", "--stdin", given=text.encode()).decode().strip()
        self._blobs[text] = blob
        lines = [f"0 {_NOTHING}\t{underscored(name)}" for name in gone]
        lines += [f"160000 {entry.commit}\t{underscored(name)}" for name, entry in sorted(lock.plugins.items())]
        self._update((*lines, f"100644 {blob}\t{LOCK_FILE}"), index)

    def restore_index(self, commit: str | None, names: Iterable[str]) -> None:
        """Make the index say of these plugins and the lock file what `commit` says of them."""
        paths = [*map(underscored, names), LOCK_FILE]
        known: dict[str, str] = {}
        if commit:
            for line in self.git("ls-tree", "-z", commit, "--", *paths).decode().split("\0")[:-1]:
                about, _, path = line.partition("\t")
                mode, _, sha = about.split(" ")
                known[path] = f"{mode} {sha}\t{path}"
        self._update([known.get(path, f"0 {_NOTHING}\t{path}") for path in paths], None)

    def _update(self, lines: Iterable[str], index: Path | None) -> None:
        given = "".join(f"{line}\0" for line in lines).encode()
        self.git("update-index", "--replace", "-z", "--index-info", given=given, index=index)

    def move(self, branch: str, new: str | None, old: str | None, why: str) -> None:
        """Move a branch from `old` to `new` if it is still there; None is a branch that doesn't exist."""
        if new is None:
            self.git("update-ref", "-m", why, "-d", branch, old or _NOTHING)
        else:
            self.git("update-ref", "-m", why, branch, new, old or _NOTHING)


@cache
def _git(path: str) -> str | None:
    return shutil.which("git", path=path)


def _environment(folder: Path, index: Path | None) -> Mapping[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    mine |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    mine |= {"GIT_DIR": str(folder / ".git"), "GIT_WORK_TREE": str(folder)} if (folder / ".git").exists() else {}
    mine |= {"GIT_INDEX_FILE": str(index)} if index else {}
    who = _user()
    mine |= {"GIT_AUTHOR_NAME": who, "GIT_AUTHOR_EMAIL": f"{who}@{socket.gethostname() or 'localhost'}"}
    return mine | {"GIT_COMMITTER_NAME": "pkg", "GIT_COMMITTER_EMAIL": "pkg@localhost"}


def stand_in() -> tuple[str, ...]:
    """Return options of git that say who makes a tag where nobody has told git, as on a build server."""
    who = _user()
    return "-c", f"user.name={who}", "-c", f"user.email={who}@{socket.gethostname() or 'localhost'}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # a container whose user has no name
        return f"user-{os.getuid()}"
