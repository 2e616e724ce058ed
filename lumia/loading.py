"""Marks that processes leave on disk while they run a plugin's code for the first time (docs/plugins.md, Quarantine).

`data/loading/` in the bot root holds one small file for each import and `on_load` under way. Its process holds a lock
on it, so the kernel tells the dead from the living, in other containers too, and takes it away again when the code has
returned or raised. So a mark without its process names the plugin, the version and the stage at which a process ended.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

FOLDER = Path("data", "loading")
PROBE = "LUMIA_PROBE"
"""Names, in the environment of a process that only looks at plugins, that look: its end is judged by who started it."""
IMPORT, ON_LOAD = "import", "on_load"
_ENDINGS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_BOOT = Path("/proc/sys/kernel/random/boot_id")

_own: dict[Path, int] = {}
"""The marks of this process, each with its pid: a forked child has a copy of this, and none of them."""
_names = (0, "", 0)


@dataclass(frozen=True)
class Mark:
    """A plugin's code that a process runs, or ran when it ended.

    version: of the plugin, with the digest of its files. doing: import or on_load. since: seconds of the wall clock.
    limit: seconds after which its process ends itself, 0 for never. boot: the machine's start, "" once it is known that
    the process ended before the machine did. probe: the look it is part of. ended: how its process ended, where
    somebody knows. hung: it was ended because it took too long.
    """

    plugin: str
    version: str
    doing: str
    process: int
    since: float
    limit: float = 0.0
    boot: str = ""
    probe: str = ""
    ended: str = ""
    hung: bool = False
    file: Path = Path()
    alive: bool = False

    @property
    def age(self) -> float:
        """Return for how many seconds it has been going on."""
        return max(0.0, time.time() - self.since)

    @property
    def what(self) -> str:
        """Say what is going on: `is being imported`, `runs on_load`."""
        return "is being imported" if self.doing == IMPORT else "runs on_load"


@contextlib.contextmanager
def marked(root: Path, plugin: str, version: str, doing: str, limit: float = 0.0) -> Iterator[Mark | None]:
    """Leave a mark while the block runs a plugin's code; yields None where none can be written, which stops nothing.

    Taken away when the block ends in any way, when the process ends in order, and before SIGTERM, SIGHUP or SIGQUIT
    end it: those are an operator's.
    """
    made = _made(root, Mark(plugin, version, doing, os.getpid(), time.time(), limit, boot(), os.environ.get(PROBE, "")))
    if made is None:
        yield None
        return
    mark, descriptor = made
    try:
        with _before_signals():
            yield mark
    finally:
        _remove_own(mark.file)
        os.close(descriptor)


def marks(root: Path, plugin: str = "") -> list[Mark]:
    """Return the marks of a bot root (of one plugin), oldest first; this process's own are not among them."""
    folder, mine = root / FOLDER, f".{_own_name()}-"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    start = f"{plugin}." if plugin else ""
    files = [folder / name for name in names if name[0] != "." and name.startswith(start) and mine not in name]
    return sorted(filter(None, map(_read, files)), key=lambda mark: mark.since)


def of_process(root: Path, process: int) -> Mark | None:
    """Return what a process is loading, or was loading when it ended; None for nothing."""
    return next((mark for mark in reversed(marks(root)) if mark.process == process and mark.boot in ("", boot())), None)


def amend(mark: Mark, **changes: Any) -> None:
    """Write a mark of a process that has ended, or is about to, anew with these changes."""
    with contextlib.suppress(OSError):
        os.close(_write(mark.file, replace(mark, **changes)))


def remove(mark: Mark) -> None:
    """Take a mark away."""
    with contextlib.suppress(OSError):
        mark.file.unlink()


@functools.cache
def boot() -> str:
    """Return what is different after each start of the machine, "" where that can't be told."""
    try:
        return _BOOT.read_text("ascii").strip()
    except OSError:
        return ""


def _made(root: Path, mark: Mark) -> tuple[Mark, int] | None:
    global _names
    process, token, number = os.getpid(), _own_name().partition("-")[2], _names[2] + 1
    _names = process, token, number
    file = root / FOLDER / f"{mark.plugin}.{process}-{token}-{number}.json"
    try:
        try:
            descriptor = _write(file, mark)
        except FileNotFoundError:
            file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _write(file, mark)
    except OSError:
        return None
    _own[file] = process
    return replace(mark, file=file, alive=True), descriptor


def _own_name() -> str:
    """Return `<pid>-<random>`: a pid alone is another process's in the next container."""
    global _names
    if _names[0] != os.getpid():
        _names = os.getpid(), os.urandom(4).hex(), 0
    return f"{_names[0]}-{_names[1]}"


def _write(file: Path, mark: Mark) -> int:
    """Write a mark whole and return its locked descriptor; not synced, since after a power cut it doesn't count."""
    values = {name: value for name, value in vars(mark).items() if name not in ("file", "alive")}
    temporary = file.with_name(f".{file.name}.{_own_name()}")  # several may amend one mark at once
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(descriptor, json.dumps(values).encode())
        os.replace(temporary, file)
    except BaseException:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return descriptor


def _read(file: Path) -> Mark | None:
    try:
        with file.open("rb") as opened:
            values = json.loads(opened.read())
            try:
                fcntl.lockf(opened.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
                alive = False
            except OSError:
                alive = True
            if not os.fstat(opened.fileno()).st_nlink:  # taken away meanwhile: it ended well
                return None
        return Mark(**values, file=file, alive=alive)
    except (OSError, ValueError, TypeError):
        return None


def _remove_own(file: Path) -> None:
    # A copy of this process that was forked meanwhile has no say.
    if _own.pop(file, None) == os.getpid():
        with contextlib.suppress(OSError):
            file.unlink()


@atexit.register
def _remove_all() -> None:
    for file in list(_own):
        _remove_own(file)


@contextlib.contextmanager
def _before_signals() -> Iterator[None]:
    """Have the signals that would end this process at once take its marks away first."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [one for one in _ENDINGS if signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, _leave)
    try:
        yield
    finally:
        for one in taken:
            if (now := signal.signal(one, signal.SIG_DFL)) is not _leave:
                signal.signal(one, now)  # the plugin's own


def _leave(number: int, _: FrameType | None) -> None:
    _remove_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
