"""The history of installations in plugins/, ways back in it, and whether what is there is what was installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Plan


@dataclass(frozen=True)
class Entry:
    """One operation. id: None for a commit somebody made by hand. changes: a line per plugin, like `dice 1.0 → 1.1`."""

    id: str | None
    commit: str
    time: datetime
    title: str
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """Something that isn't as it was installed.

    kind: `edited`, `added`, `missing` (a file), `absent` (the whole plugin), `moved` (another commit is checked out),
    `digest`, `signature`, `repository` (plugins/ itself), `unmanaged` (a plugin that `pkg` did not install: no fault).
    """

    plugin: str
    kind: Literal["edited", "added", "missing", "absent", "moved", "digest", "signature", "repository", "unmanaged"]
    text: str
    file: str = ""


def log(root: Path, limit: int = 100) -> list[Entry]:
    """Return the operations, the newest first."""
    raise NotImplementedError


def rollback(root: Path, to: str | None = None) -> Plan:
    """Return the plan that brings back what was installed before the last operation, or after operation `to`.

    Versions come from the cache where it has them. Raises `PkgError` when there is no such operation, or a version
    can't be had any more.
    """
    raise NotImplementedError


def freeze(root: Path) -> str:
    """Return the text of a lock that `sync_plan` on another machine takes."""
    raise NotImplementedError


def sync_plan(root: Path, lock: Lock) -> Plan:
    """Return the plan after which exactly `lock` is installed; raises `PkgError`."""
    raise NotImplementedError


def verify(root: Path, names: Sequence[str] = ()) -> list[Finding]:
    """Compare what is there with what was installed, file by file; names: only these plugins."""
    raise NotImplementedError


def unmanaged(root: Path) -> list[str]:
    """Return the plugins in plugins/ that `pkg` did not install: it leaves them alone."""
    raise NotImplementedError
