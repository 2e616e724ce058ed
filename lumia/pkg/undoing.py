"""Putting everything back: what an operation had changed before it failed, or was cut off (docs/pkg-operations.md).

Each function looks at what is there and does what is left to do, so undoing can be cut off itself at any point. It
needs no room on the disk but that of the ballast.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from lumia import atomic
from lumia.atomic import sync_folder
from lumia.config_file import rewrite
from lumia.errors import ConfigError, LumiaError, OperationError
from lumia.pkg import configfile, failpoints, files, layers, lockfile
from lumia.pkg.journal import Rewritten
from lumia.pkg.layout import LOCK_FILE
from lumia.pkg.progress import Deploy
from lumia.pkg.transaction import INSTALLS, Transaction, clean

_STALE = 30
"""Seconds after which a lock in the repository belongs to no git that is alive."""


def undo(work: Transaction, deploy: Deploy | None = None) -> None:
    """Put back what `work` has changed. Raises `OSError` or `OperationError`; then it can be tried again.

    deploy: is given the old lock when the running bot may have got the new one.
    """
    files.remove(work.kept / "ballast")
    work.journal = work.journal.with_(phase="undo")
    with work.step("undo", text="putting everything back"):
        pass
    with work.step("undo-packages"):
        _packages(work)
    with work.step("undo-commit"):
        _commit(work)
    with work.step("undo-lock"):
        _lock(work)
    with work.step("undo-config"):
        for entry in reversed(work.journal.rewritten):
            _settings(work, entry)
    with work.step("undo-folder"):
        _folders(work)
    if work.journal.handed and deploy is not None:
        _hand_back(work, deploy)
    with work.step("undo-finish"):
        if work.journal.commit.made and work.repository.there and work.repository.head() is None:
            files.remove(work.layout.plugins / ".git")
        work.layout.journal.unlink(missing_ok=True)
        sync_folder(work.layout.data)
    failpoints.hit("undo-clean")
    clean(work.layout)
    failpoints.hit("undo-clean.done")


def _packages(work: Transaction) -> None:
    found = work.journal.packages
    if found is not None and layers.pointer(work.layout.root) != found.old:
        layers.point(work.layout.root, found.old)


def _commit(work: Transaction) -> None:
    made = work.journal.commit
    repository = work.repository
    if not repository.there:
        return
    for lock in (work.layout.plugins / ".git" / name for name in ("HEAD.lock", f"{made.branch}.lock")):
        with contextlib.suppress(OSError):
            if time.time() - lock.stat().st_mtime > _STALE:
                lock.unlink()
    if made.new is not None and repository.head() == made.new:
        repository.move(made.branch, made.old, made.new, f"pkg: undo {work.journal.id}")
    try:
        repository.restore_index(made.old, [change.name for change in work.journal.changes])
    except OperationError as error:
        work.warn(f"`git status` in plugins/ shows differences that are none: {error}")


def _lock(work: Transaction) -> None:
    path, kept = work.layout.lock, work.kept / LOCK_FILE
    if work.journal.had_lock and not kept.exists():
        work.warn(
            f"{kept} is gone, and not for us; `git -C {path.parent} checkout -- {path.name}` brings the lock back"
        )
    elif work.journal.had_lock:
        if not path.exists() or path.read_bytes() != kept.read_bytes():
            atomic.replace(path, kept.read_bytes())
    else:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)


def _settings(work: Transaction, entry: Rewritten) -> None:
    path = Path(entry.path)
    before = _bytes(work.kept / f"settings-{entry.number}.before") if entry.existed else None
    after = _bytes(work.kept / f"settings-{entry.number}.after") if entry.made else None
    lost = [
        f"settings-{entry.number}.{image}"
        for image, was, found in (("before", entry.existed, before), ("after", entry.made, after))
        if was and found is None
    ]
    with atomic.locked(path.parent):
        now = _bytes(path)
        if now == before and not lost:
            return
        if lost and not entry.names:
            work.warn(f"{' and '.join(lost)} in {work.kept} is gone, and not for us; {path} is left as it is")
            return
        if not lost and (now == after or not entry.names):
            if now not in (after, None):
                _keep(work, path, now)
            _restore(path, before, entry.mode)
            return
    _undo_names(work, path, entry)


def _restore(path: Path, before: bytes | None, mode: int) -> None:
    if before is None:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
    else:
        atomic.replace(path, before, mode=mode)


def _keep(work: Transaction, path: Path, now: bytes | None) -> None:
    """Somebody, a hook or the running bot, wrote the file meanwhile: that isn't lost either."""
    copy = work.layout.log / f"{work.journal.id}-{path.name}"
    with contextlib.suppress(OSError):
        files.write(copy, now or b"")
        work.warn(f"{path} was changed meanwhile and is put back, too; what it said is in {copy}")


def _undo_names(work: Transaction, path: Path, entry: Rewritten) -> None:
    """config/lumia.toml was edited meanwhile: only our names in it are taken back."""
    opposite = {name: not off for name, off in entry.names.items()}
    try:
        rewrite(path, lambda document: configfile.with_names(document.text, opposite, path))
    except ConfigError as error:
        work.warn(f"[plugins] disabled could not be put back: {error}")


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _folders(work: Transaction) -> None:
    for change in reversed(work.journal.changes):
        folder, old, new = work.layout.folder(change.name), work.old(change.name), work.new(change.name)
        out = work.area / "out" / folder.name
        # What waits in `new` was not swapped in, so what is in plugins/ is the old version, or nobody's of ours.
        ours = change.kind in INSTALLS and work.journal.staged and not os.path.lexists(new)
        if ours and (os.path.lexists(old) or not change.there) and os.path.lexists(folder):
            files.make_folder(out.parent)
            files.remove(out)
            files.move(folder, out)
        if os.path.lexists(old) and not os.path.lexists(folder):
            files.move(old, folder)
        if change.there and not os.path.lexists(folder):
            work.warn(f"{folder} is gone, and not for us; `pkg verify` tells more", change.name)


def _hand_back(work: Transaction, deploy: Deploy) -> None:
    try:
        outcome = deploy(lockfile.read(work.layout.root))
        trouble = "" if outcome.ok else outcome.text
    except LumiaError as error:
        trouble = str(error)
    if trouble:
        work.warn(f"the running bot was not given the old plugins back: {trouble}; restart it")
