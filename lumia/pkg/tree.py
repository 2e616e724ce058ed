"""The tree of files a package is: what may be in it, and its digest (docs/signing.md)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Limits:
    """How much a package may be. total and file: bytes; pack: bytes of what git transfers for it."""

    files: int = 5_000
    total: int = 64 * 1024 * 1024
    file: int = 16 * 1024 * 1024
    pack: int = 128 * 1024 * 1024


def check(folder: Path, limits: Limits | None = None) -> None:
    """Raise `UnsafePackageError`, naming file and reason, when the files of `folder` are none for a package."""
    raise NotImplementedError


def check_commit(repository: Path, commit: str, limits: Limits | None = None) -> None:
    """Like `check` for a commit of a git repository (its folder or bare), without writing any of it to disk."""
    raise NotImplementedError


def digest(folder: Path) -> str:
    """Return `sha256:` and 64 hex digits over paths, modes and contents of `folder`; `.git` and `__pycache__` don't count."""
    raise NotImplementedError


def digest_commit(repository: Path, commit: str) -> str:
    """Return the digest of a commit's tree: that of a folder it is checked out to."""
    raise NotImplementedError
