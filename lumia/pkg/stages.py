"""Folders that versions are staged in: each is locked by the process that uses it, so that what is left is known."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import uuid
from pathlib import Path

from lumia.pkg import files

_held: dict[Path, int] = {}


def make(area: Path) -> Path:
    """Make a folder of this process's own below `area`; it is ours until `leave`, or our death. Raises `OSError`."""
    while True:
        folder = area / uuid.uuid4().hex[:12]
        folder.mkdir(parents=True)
        try:
            _held[folder] = _locked(folder)
        except (BlockingIOError, FileNotFoundError):  # taken for a left one before it was locked
            continue
        except OSError:
            folder.rmdir()
            raise
        return folder


def leave(folder: Path) -> None:
    """Give a folder up, which is removed when it is empty."""
    lock = _held.pop(folder, None)
    with contextlib.suppress(OSError):
        folder.rmdir()
    if lock is not None:
        os.close(lock)


def sweep(area: Path) -> None:
    """Remove the folders below `area` whose process was killed, as far as that can be done."""
    with contextlib.suppress(OSError):
        for folder in area.iterdir():
            try:
                lock = _locked(folder)
            except OSError:
                continue
            try:
                files.remove(folder)
            finally:
                os.close(lock)


def _locked(folder: Path) -> int:
    """Return the lock on a folder. Raises `BlockingIOError` when it is somebody else's, `OSError`."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.lstat(folder)):
            return lock
        raise FileNotFoundError(errno.ENOENT, "another folder by now", str(folder))
    except OSError:
        os.close(lock)
        raise
