"""Which process a pid means: a pid alone may have been given to somebody else since."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_LINUX = os.uname().sysname == "Linux"


def start_mark(pid: int) -> float:
    """Return when the process started, 0.0 when there is none; only good for comparing with itself.

    On Linux these are the kernel's ticks since boot, which no jump of the wall clock changes; elsewhere seconds since
    the epoch. A process that has ended and waits to be reaped counts as none.
    """
    if _LINUX:
        return _ticks(pid)
    import psutil

    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return 0.0


def _ticks(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return 0.0 if fields[0] in "ZX" else float(fields[19])


def is_process(pid: int | None, mark: float, command: Sequence[str]) -> bool:
    """Tell whether `pid` is still the process that started at `mark` with `command`."""
    if pid is None or mark <= 0.0 or start_mark(pid) != mark:
        return False
    import psutil

    try:
        return same_command(psutil.Process(pid).cmdline(), command)
    except psutil.Error:
        return False


def same_command(actual: Sequence[str], wanted: Sequence[str]) -> bool:
    """Compare command lines; a server may rewrite its own (`valkey-server 127.0.0.1:8472`), what it is called stays."""
    if list(actual) == list(wanted):
        return True
    if not wanted:
        return False
    named = wanted[2] if len(wanted) > 2 and wanted[1] == "-m" else os.path.basename(wanted[0])
    return named in " ".join(actual)


def end(pid: int, mark: float, how: signal.Signals, grace: float) -> bool:
    """End a process that is not our child: `how`, then SIGKILL to its group after `grace` seconds.

    Returns whether it went by itself. Only a process that started at `mark` is ever touched.
    """
    if _signalled(pid, mark, how) and _gone_within(pid, mark, grace):
        return True
    with suppress(ProcessLookupError, PermissionError):
        if start_mark(pid) == mark:
            os.killpg(pid, signal.SIGKILL) if os.getpgid(pid) == pid else os.kill(pid, signal.SIGKILL)
    _gone_within(pid, mark, 5.0)
    return False


def _signalled(pid: int, mark: float, how: signal.Signals) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        if start_mark(pid) == mark:
            os.kill(pid, how)
    return True


def _gone_within(pid: int, mark: float, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while start_mark(pid) == mark:
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True
