"""The log file of each process: it writes its own file, the supervisor keeps it bounded.

A process writes straight to `data/logs/<service>.log` in append mode, so a busy or dead supervisor never blocks it. At
each start of `lumia up` the file becomes `<service>.log.1`; while running, a file over the cap is copied there and
emptied in place. Lines written between copy and emptying are lost; two files of at most the cap's size remain.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

CAP = 16 * 1024 * 1024
"""Bytes a log may reach while running; checked every few seconds, so a burst may pass it for a moment."""


def open_log(file: Path) -> int:
    """Open a log for appending, 0600, and return its descriptor."""
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def rotate_at_start(file: Path) -> None:
    """Put the last run's log aside, so that the file at hand tells of this run."""
    with suppress(FileNotFoundError):
        if file.stat().st_size:
            os.replace(file, _previous(file))


def keep_bounded(file: Path, cap: int = CAP) -> bool:
    """Copy a log over the cap aside and empty it in place; tell whether that was done."""
    try:
        if file.stat().st_size <= cap:
            return False
        shutil.copyfile(file, _previous(file))
        os.truncate(file, 0)
    except OSError:
        return False
    return True


def last_lines(file: Path, count: int = 8) -> list[str]:
    """Return the last non-empty lines; none when there is no file."""
    try:
        with file.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            log.seek(max(0, size - 16384))
            text = log.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in text.splitlines() if line.strip()][-count:]


def _previous(file: Path) -> Path:
    return file.with_name(file.name + ".1")
