"""Getting a version of a plugin into a staging folder, checked and ready to be installed (DESIGN §11)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lumia.pkg.git import Git
from lumia.pkg.model import Locked, Request, Staged
from lumia.pkg.revocation import Revoked
from lumia.pkg.tree import Limits


def stage(
    request: Request,
    *,
    url: str,
    tag: str | None,
    root: Path,
    git: Git,
    commit: str | None = None,
    expected_digest: str | None = None,
    signatures: Sequence[str] = (),
    revoked: Revoked | None = None,
    into: Path | None = None,
    limits: Limits | None = None,
) -> Staged:
    """Fetch, check and stage one version in a new folder below data/pkg/staging; nothing of the bot is changed.

    url: where it is, for a folder its absolute path. tag: None takes the latest version tag (a folder: that at HEAD).
    commit, expected_digest, signatures: what the registry says of it; it must be so. into: the folder to make, default
    data/pkg/staging/<random>/<plugin folder>.

    Raises `SourceError`, `UnsafePackageError`, `SignatureError`, `ManifestError`.
    """
    raise NotImplementedError


def stage_locked(
    locked: Locked, *, root: Path, git: Git, revoked: Revoked | None = None, into: Path | None = None
) -> Staged:
    """Stage exactly what a lock records (rollback, sync, other machines): commit and digest must be the lock's.

    Needs no network when the commit is in the cache. Keys aren't judged anew, since the lock says they were, except
    that a revoked key or version is refused.
    """
    raise NotImplementedError


def discard(staged: Staged) -> None:
    """Remove a staged version that is not wanted after all."""
    raise NotImplementedError
