"""The history of installations in plugins/, and the ways back in it (docs/pkg-operations.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from lumia.errors import PkgError, PlanError
from lumia.pkg import lockfile
from lumia.pkg import world as worlds
from lumia.pkg.checking import Finding, unmanaged, verify
from lumia.pkg.git import Git
from lumia.pkg.ground import Ground, must_fit, python_of
from lumia.pkg.layout import LOCK_FILE, Layout
from lumia.pkg.lockfile import Lock
from lumia.pkg.model import Action, Kind, Locked, Plan, Staged
from lumia.pkg.repository import TRAILER, Repository
from lumia.pkg.revocation import Revoked
from lumia.pkg.revocation import load as revoked_of
from lumia.pkg.staging import discard, stage_locked
from lumia.pkg.text import plain
from lumia.pkg.world import Present

__all__ = ["Entry", "Finding", "freeze", "log", "rollback", "sync_plan", "unmanaged", "verify"]

Stage = Callable[[Locked], Staged]
Ask = Callable[[], Revoked]
_FORMAT = f"%H%x1f%cI%x1f%s%x1f%(trailers:key={TRAILER},valueonly)%x1f%b"


@dataclass(frozen=True)
class Entry:
    """One operation. id: None for a commit somebody made by hand. changes: a line per plugin, as `Install dice 1.0`."""

    id: str | None
    commit: str
    time: datetime
    title: str
    changes: tuple[str, ...] = ()


def log(root: Path, limit: int = 100) -> list[Entry]:
    """Return the operations, the newest first."""
    repository = Repository(Layout(root).plugins)
    if not repository.there or repository.head() is None:
        return []
    shown = repository.git("log", "--first-parent", "-z", f"--max-count={limit}", f"--format={_FORMAT}")
    return [_entry(record) for record in shown.decode("utf-8", "replace").split("\0") if record]


def _entry(record: str) -> Entry:
    commit, time, title, trailer, body = record.split("\x1f", 4)
    id = plain(trailer, 60) or None
    lines = [plain(line) for line in body.splitlines() if line.strip() and not line.startswith(f"{TRAILER}:")]
    changes = tuple(lines or [plain(title)]) if id else ()
    return Entry(id, commit, datetime.fromisoformat(time), plain(title), changes)


def rollback(root: Path, to: str | None = None, *, revoked: Ask | None = None) -> Plan:
    """Return the plan that brings back what was installed before the last operation, or after operation `to`.

    to: an id of `log`, or the beginning of its commit. revoked: as in `sync_plan`. Versions come from the cache where
    it has them. Raises `PlanError` when there is no such operation, `SourceError` when a version can't be had any more.
    """
    return sync_plan(root, _lock_at(root, to), revoked=revoked)


def _lock_at(root: Path, to: str | None) -> Lock:
    repository = Repository(Layout(root).plugins)
    entries = [entry for entry in log(root, limit=100_000) if entry.id]
    if not entries:
        raise PlanError(f"there is nothing to go back to: {root / 'plugins'} holds no operation of `pkg`")
    if to is None:
        parent = repository.git("rev-parse", "--verify", "--quiet", f"{entries[0].commit}^", ok=(0, 1)).decode().strip()
        return _lock_of(repository, parent)
    found = [one for one in entries if to == one.id or (len(to) >= 4 and one.commit.startswith(to))]
    if len(found) != 1:
        raise PlanError(
            f"{plain(to, 60)!r} {'names several operations' if found else 'is no operation'}; `pkg log` lists them"
        )
    return _lock_of(repository, found[0].commit)


def _lock_of(repository: Repository, commit: str) -> Lock:
    """Return the lock in a commit; an empty one for the time before the first operation."""
    if not commit or not repository.git("ls-tree", commit, "--", LOCK_FILE):
        return Lock()
    text = repository.git("cat-file", "blob", f"{commit}:{LOCK_FILE}").decode("utf-8", "replace")
    return lockfile.parse(text, f"{LOCK_FILE} of commit {commit[:12]}")


def freeze(root: Path) -> str:
    """Return the text of a lock that `sync_plan` on another machine takes.

    Raises `PkgError` when a plugin comes from a folder of this machine: nobody else has that.
    """
    lock = lockfile.read(root)
    local = sorted(name for name, entry in lock.plugins.items() if entry.origin == "folder")
    if local:
        raise PkgError(
            f"{', '.join(local)} {'was' if len(local) == 1 else 'were'} installed from a folder of this machine, which "
            "no other has; install from a git URL instead"
        )
    return lock.text()


def sync_plan(root: Path, lock: Lock, *, stage: Stage | None = None, revoked: Ask | None = None) -> Plan:
    """Return the plan after which exactly `lock` is installed. stage: default is fetching, or the cache.

    revoked: tells what is revoked, asked only when there is something to install; default is the list kept last.

    Raises `PkgError`: `PlanError` when it doesn't fit what else the bot has, `SourceError` for what can't be had.
    """
    ground = Ground.read(root)
    staged: dict[str, Staged] = {}
    get = stage or _stager(root, revoked or (lambda: revoked_of(root)))
    try:
        for name, wanted in sorted(lock.plugins.items()):
            now = ground.lock.plugins.get(name)
            if now is None or _content(now) != _content(wanted) or not Layout(root).folder(name).exists():
                staged[name] = get(wanted)
        return _plan(ground, lock, staged)
    except BaseException:
        for one in staged.values():
            discard(one)
        raise


def _stager(root: Path, revoked: Ask) -> Stage:
    git, told = Git(Layout(root).cache), cache(revoked)
    return lambda locked: stage_locked(locked, root=root, git=git, revoked=told())


def _plan(ground: Ground, lock: Lock, staged: dict[str, Staged]) -> Plan:
    gone = [
        name for name in reversed(worlds.ordered(ground.world)) if name in ground.lock.plugins.keys() - lock.plugins
    ]
    after: dict[str, Present] = {name: one for name, one in ground.world.items() if name not in gone}
    for name, wanted in lock.plugins.items():
        if name in staged:
            after[name] = Present.of_staged(replace(staged[name], locked=wanted), enabled=wanted.enabled)
        else:
            after[name] = replace(worlds.switched(after[name], wanted.enabled), locked=wanted)
    must_fit(ground.world, after)
    actions = [Action("remove", name, before=ground.lock.plugins[name]) for name in gone]
    for name in worlds.ordered(after):
        if name in lock.plugins:
            actions += _actions(ground.lock.plugins.get(name), lock.plugins[name], staged.get(name))
    warnings = tuple(text for one in staged.values() for text in one.warnings)
    return Plan(tuple(actions), frozenset(), python_of(after), warnings)


def _actions(now: Locked | None, wanted: Locked, staged: Staged | None) -> list[Action]:
    found = []
    if staged is not None:
        found.append(Action(_kind(now, wanted), wanted.name, now, wanted, replace(staged, locked=wanted)))
    if now is not None and (now.enabled != wanted.enabled or (staged is None and now != wanted)):
        kind: Kind = "mark" if now.enabled == wanted.enabled else "enable" if wanted.enabled else "disable"
        found.append(Action(kind, wanted.name, now, wanted))
    return found


def _kind(now: Locked | None, wanted: Locked) -> Kind:
    if now is None:
        return "install"
    try:
        return "downgrade" if Version(wanted.version) < Version(now.version) else "upgrade"
    except InvalidVersion:
        return "upgrade"


def _content(entry: Locked) -> tuple[object, ...]:
    return entry.commit, entry.digest, entry.url, entry.origin, entry.tag, entry.key
