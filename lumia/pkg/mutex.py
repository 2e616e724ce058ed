"""One operation at a time: the lock that a `pkg` at work holds, and who that is (docs/pkg-operations.md)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lumia.errors import OperationError
from lumia.pkg import files
from lumia.pkg.layout import Layout
from lumia.pkg.text import plain

_RETRY = 0.02


class HeldError(OperationError):
    """Another process holds the lock."""


@dataclass(frozen=True)
class Holder:
    """Who holds the lock. since: local time."""

    process: int
    command: str
    since: str

    def __str__(self) -> str:
        return f"`{self.command}` (process {self.process}, since {self.since})"


@contextlib.contextmanager
def hold(
    layout: Layout,
    file: str = "lock",
    *,
    timeout: float | None = None,
    on_wait: Callable[[str], None] = lambda text: None,
) -> Iterator[int]:
    """Hold the lock and give its descriptor; what inherits that keeps the lock after our death, until it has ended.

    file: which one in data/pkg, for another lock than that of an operation (`lumia.pkg.turn`). timeout: seconds to
    wait for another holder, None without end. on_wait: is told once whom we wait for. Raises `HeldError` naming the
    holder when the time is over, `OperationError` when the lock can't be made.
    """
    path = layout.data / file
    descriptor = _opened(path)
    try:
        _acquire(descriptor, path, timeout, on_wait)
        _sign(descriptor)
        try:
            yield descriptor
        finally:
            os.ftruncate(descriptor, 0)
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        files.make_folder(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise OperationError(
            f"{path} can't be opened ({error.strerror}), so nothing can be installed or removed; give this "
            "user the right to write there"
        ) from error


def _acquire(descriptor: int, path: Path, timeout: float | None, on_wait: Callable[[str], None]) -> None:
    end = None if timeout is None else time.monotonic() + timeout
    told = False
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                raise OperationError(
                    f"{path} can't be locked ({error.strerror}); data/ must be on a file system that knows "
                    "locks (flock)"
                ) from error
        who = _holder(path)
        if end is not None and time.monotonic() >= end:
            raise HeldError(
                f"another operation is going on: {who or 'unknown'}; try again when it has ended, or leave out "
                "--no-wait to wait for it"
            )
        if not told:
            told = True
            on_wait(f"waiting for {who or 'another operation'}")
        time.sleep(_RETRY)


def _sign(descriptor: int) -> None:
    command = " ".join([os.path.basename(sys.argv[0] or "python"), *sys.argv[1:]])
    me = {
        "process": os.getpid(),
        "command": plain(command, 120),
        "since": datetime.now().astimezone().strftime("%H:%M:%S"),
    }
    with contextlib.suppress(OSError):  # only a courtesy; a full disk is told later, by what matters
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(me).encode(), 0)


def holder(layout: Layout) -> Holder | None:
    """Return who said last that it holds the lock of an operation; None when nobody did."""
    return _holder(layout.mutex)


def _holder(path: Path) -> Holder | None:
    try:
        data = json.loads(path.read_text("utf-8"))
        return Holder(int(data["process"]), plain(str(data["command"]), 120), plain(str(data["since"]), 20))
    except (OSError, ValueError, KeyError, TypeError):
        return None
