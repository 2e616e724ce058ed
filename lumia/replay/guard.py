"""While a replay runs, this process reaches nothing outside and writes no files: a handler that tries to gets an error.

Calls that go through `lumia.effect` never come here, they are answered from the record. This is for code that goes its
own way, e.g. an HTTP request made directly, or a file it keeps: replaying an incident must not repeat it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lumia.errors import ReplayError

REFUSED = {
    "socket.connect": "connect to {1}",
    "socket.sendto": "send to {1}",
    "socket.getaddrinfo": "look up {0}",
    "socket.gethostbyname": "look up {0}",
    "subprocess.Popen": "start the program {0}",
    "os.system": "run {0}",
    "os.exec": "run {0}",
    "os.posix_spawn": "start the program {0}",
}
"""Audit events of the interpreter, and what stands for them in a message."""
CHANGING = {
    "open": ((0, None),),
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "shutil.copyfile": ((1, None),),
    "shutil.move": ((0, None), (1, None)),
    "shutil.rmtree": ((0, 1),),
    "sqlite3.connect": ((0, None),),
}
"""Audit events that change files: where in their arguments each path stands, and the folder it is relative to."""
WRITE = "write "
"""What a refused change of a file begins with."""
_KNOWN = frozenset({*REFUSED, *CHANGING})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PLACES = frozenset({os.devnull, ":memory:", ""})

_lock = threading.Lock()
_installed = False
_guarding = 0
_scratch: list[str] = []
"""The folders in which files may be written; while there are none, they may be everywhere."""
_refused: list[str] = []


@contextmanager
def alone() -> Iterator[list[str]]:
    """Refuse what reaches outside in this block, in every thread; yields the list of what was refused so far."""
    global _guarding, _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_hook)  # can't be taken back, so it looks whether a replay is on
            _installed = True
        if not _guarding:
            _refused.clear()
        _guarding += 1
    try:
        yield _refused
    finally:
        with _lock:
            _guarding -= 1


@contextmanager
def in_scratch() -> Iterator[None]:
    """Within `alone`, refuse to change files, too, but in a folder that `tempfile` uses here; it goes afterwards."""
    before, bytecode = tempfile.tempdir, sys.dont_write_bytecode
    with tempfile.TemporaryDirectory(prefix="lumia-replay-") as folder:
        place = os.path.join(os.path.realpath(folder), "")
        tempfile.tempdir, sys.dont_write_bytecode = folder, True
        _scratch.append(place)
        try:
            yield
        finally:
            _scratch.remove(place)
            tempfile.tempdir, sys.dont_write_bytecode = before, bytecode


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not _guarding or event not in _KNOWN:  # thousands of other events come by
        return
    if event in REFUSED:
        what = REFUSED[event].format(*args)
        _refused.append(what)
        raise ReplayError(
            f"a replay reaches nothing outside, and this code tried to {what}: make the call through lumia.effect, so "
            "that it is recorded and a replay gets its result"
        )
    if _scratch and event in CHANGING and not (event == "open" and not _writes(*args[1:3])):
        _check(event, args)


def _writes(mode: object, flags: object) -> bool:
    return bool(isinstance(flags, int) and flags & _WRITING)


def _check(event: str, args: tuple[Any, ...]) -> None:
    for path, folder in CHANGING[event]:
        place = _place(args[path], args[folder] if folder is not None and folder < len(args) else -1)
        if place in _PLACES or place.startswith(tuple(_scratch)) or f"{place}{os.sep}" in _scratch:
            continue
        _refused.append(f"{WRITE}{place}")
        raise ReplayError(
            f"a replay writes nothing, and this code tried to write {place}: keep what lasts in lumia.store, and write "
            "other files under tempfile.gettempdir(), which is a folder of the replay's own"
        )


def _place(path: Any, folder: Any) -> str:
    """Return the absolute path that is meant, "" for an open file; folder: a file descriptor, or nothing."""
    if isinstance(path, int):
        return ""
    name = os.fsdecode(path)
    if name in _PLACES:
        return name
    if isinstance(folder, int) and folder >= 0 and not os.path.isabs(name):
        name = os.path.join(_folder(folder), name)
    head, tail = os.path.split(os.path.abspath(name))
    return os.path.join(os.path.realpath(head), tail)


def _folder(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        import fcntl

        found = fcntl.fcntl(descriptor, getattr(fcntl, "F_GETPATH", 50), bytes(1024))
        return os.fsdecode(found.rstrip(b"\0"))
