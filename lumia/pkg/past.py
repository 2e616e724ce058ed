"""What this bot root holds and held: the lock and its history in plugins/, which nobody else writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from lumia.errors import PkgError
from lumia.pkg import lockfile
from lumia.pkg.layout import LOCK_FILE, Layout
from lumia.pkg.model import Locked
from lumia.pkg.repository import Repository


def held(root: Path, locked: Locked) -> bool:
    """Tell whether this very version is or was installed here: same commit and digest, and same tag and key.

    With another tag or key it is not the same: so nobody renames a revoked version, or ascribes one to a key.
    """
    now = lockfile.read(root).plugins.get(locked.name)
    if now is not None and _same(now, locked):
        return True
    wanted = locked.commit.encode()
    return any(wanted in text and _holds(text, locked) for text in _locks(Repository(Layout(root).plugins)))


def _locks(repository: Repository) -> Iterator[bytes]:
    """Yield each lock that was committed, the newest first."""
    if not repository.there or repository.head() is None:
        return
    commits = repository.git("rev-list", "--first-parent", "HEAD", "--", LOCK_FILE).decode().split()
    asked = "".join(f"{commit}:{LOCK_FILE}\n" for commit in commits).encode()
    rest = repository.git("cat-file", "--batch", given=asked)
    while rest:
        head, _, rest = rest.partition(b"\n")
        if head.endswith(b" missing"):
            continue
        size = int(head.rpartition(b" ")[2])
        yield rest[:size]
        rest = rest[size + 1 :]


def _holds(text: bytes, locked: Locked) -> bool:
    try:
        then = lockfile.parse(text.decode("utf-8", "replace")).plugins.get(locked.name)
    except PkgError:
        return False  # damaged, or committed by hand
    return then is not None and _same(then, locked)


def _same(one: Locked, other: Locked) -> bool:
    return (one.commit, one.digest, one.tag, one.key) == (other.commit, other.digest, other.tag, other.key)
