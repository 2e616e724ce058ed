"""A commit's files in a folder, with a `.git` that runs nothing and changes no byte of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

from lumia.errors import SourceError
from lumia.pkg.git_process import GitFailed, run
from lumia.pkg.git_remote import explain, shown

ATTRIBUTES = "* -text -eol -ident -filter -working-tree-encoding -diff -merge -export-subst -export-ignore\n"
"""Highest in rank of all attributes, so that what a repository says of filters and line ends has no effect."""
_CONFIG = """[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\thooksPath = /dev/null
\tfsmonitor = false
[gc]
\tauto = 0
"""
_LOCAL_SECONDS = 60.0


def write(mirror: Path, commit: str, tag: str | None, into: Path, url: str) -> None:
    """Put a commit of a mirror into the new folder `into`, with its tag. Raises `SourceError`, `UnsafePackageError`."""
    git = ["--git-dir", str(into / ".git")]
    refspec = commit
    if tag is not None and resolved(mirror, f"refs/tags/{tag}") == commit:
        refspec = f"+refs/tags/{tag}:refs/tags/{tag}"
    source = "file://" + quote(str(mirror.absolute()))
    fetch = ["fetch", "-q", "--no-tags", "--no-write-fetch-head", "--depth=1", "--", source, refspec]
    try:
        run(["init", "-q", "--template=", "--", str(into)], timeout=_LOCAL_SECONDS)
        neutralise(into)
        run([*git, *fetch], timeout=_LOCAL_SECONDS)
        if tag is not None and refspec == commit:
            run([*git, "update-ref", f"refs/tags/{tag}", commit], timeout=_LOCAL_SECONDS)
        run([*git, "--work-tree", str(into), "checkout", "-q", "--detach", commit], timeout=_LOCAL_SECONDS)
        settle(into, url)
    except OSError as error:
        raise SourceError(f"{shown(url)}: its files can't be written to {into}: {error.strerror}") from error
    except GitFailed as error:
        if error.kind in ("unsafe", "large", "full", "missing"):
            explain(url, error)
        raise SourceError(f"{shown(url)}: its files can't be written to {into}: {error.text}") from None


def neutralise(folder: Path) -> None:
    """Make the repository of `folder` take its files byte for byte, whatever attributes they hold."""
    info = folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text(ATTRIBUTES, encoding="ascii")


def settle(folder: Path, url: str) -> None:
    """Leave in the `.git` of `folder` what a version needs, and nothing that runs."""
    inner = folder / ".git"
    for extra in ("hooks", "branches", "logs"):
        shutil.rmtree(inner / extra, ignore_errors=True)
    for extra in ("FETCH_HEAD", "ORIG_HEAD", "description", "COMMIT_EDITMSG"):
        (inner / extra).unlink(missing_ok=True)
    quoted = url.replace("\\", "\\\\").replace('"', '\\"')
    (inner / "config").write_text(f'{_CONFIG}[remote "origin"]\n\turl = "{quoted}"\n', encoding="utf-8")


def resolved(repository: Path, ref: str) -> str | None:
    """Return the commit a ref or id leads to, None when the repository hasn't got it."""
    command = ["--git-dir", str(repository), "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"]
    try:
        return run(command, timeout=_LOCAL_SECONDS).decode().strip() or None
    except GitFailed:
        return None
