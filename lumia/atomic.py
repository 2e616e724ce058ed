"""Replacing small files so that a reader sees the old bytes or the new ones, never a mixture or nothing."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

LOCK_NAME = ".lumia.lock"
_RETRY = 0.005


@contextlib.contextmanager
def locked(folder: Path, *, timeout: float = 10.0) -> Iterator[None]:
    """Hold the writers' lock of `folder` (an advisory `flock` on its `.lumia.lock`) among all processes and threads.

    Raises `TimeoutError` (an `OSError`) when another process keeps it for `timeout` seconds, `OSError` when the
    folder can't be written.
    """
    path = folder / LOCK_NAME
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _acquire(lock, path, time.monotonic() + timeout)
        try:
            yield
        finally:
            # Said aloud, because a process forked meanwhile holds a copy of the descriptor: closing ours frees nothing.
            fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


def _acquire(lock: int, path: Path, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps the lock", str(path)) from None
            time.sleep(_RETRY)


def replace(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` to `path` by temporary file, fsync and rename; an existing file keeps its mode and owner.

    A new file gets `mode` less the umask. Call it inside `locked(path.parent)`: the temporary name is fixed, so that
    one left by a killed process is overwritten and never piles up. Raises `OSError`; then `path` is as it was.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    try:
        _write(temporary, data, mode)
        _copy_rights(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def _write(path: Path, data: bytes, mode: int) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_rights(source: Path, target: Path) -> None:
    try:
        there = source.stat()
    except FileNotFoundError:
        return
    target.chmod(there.st_mode & 0o7777)
    with contextlib.suppress(PermissionError):  # only root may give a file away; the content matters more
        os.chown(target, there.st_uid, there.st_gid)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    # The rename has happened: a file system that can't sync folders (EINVAL) is no reason to report a failed write.
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
