"""One supervisor per bot root: a lock the kernel takes back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from lumia.errors import SupervisorError

_LOOKERS = 0.3
"""Seconds a start waits for those who only look: `holder` takes the lock for an instant."""


class UpLock:
    """The lock file `data/run/up.lock`; holds the pid of the supervisor while one runs.

    The lock is `flock` on the open file, so a pid left behind in a stale file means nothing. Children don't inherit it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock; raise `SupervisorError` naming the running twin."""
        while self._fd < 0:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _lock_within(fd, _LOOKERS):
                pid = _read_pid(fd)
                os.close(fd)
                raise SupervisorError(
                    f"this bot is already up (pid {pid or 'unknown'}); "
                    "see it with `lumia status`, end it with `lumia down`"
                )
            if _is_still_at(fd, self._path):
                self._fd = fd
            else:
                os.close(fd)
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Remove the file and free the lock, in this order: who opened it meanwhile sees that it is gone."""
        if self._fd < 0:
            return
        self._path.unlink(missing_ok=True)
        os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> UpLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def holder(path: Path) -> int | None:
    """Return the pid of the supervisor that holds the lock now, or None when none does."""
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        while not _try_lock(fd, fcntl.LOCK_SH):
            pid = _read_pid(fd)
            if pid is not None:
                return pid
            time.sleep(0.01)
        return None
    finally:
        os.close(fd)


def _lock_within(fd: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not _try_lock(fd, fcntl.LOCK_EX):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _try_lock(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path))
    except FileNotFoundError:
        return False


def _read_pid(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
