"""Noticing that a plugin's files were saved.

Files are looked at instead of waiting for the system's events: a plugin has few, it works on every kind of file system,
and an editor that replaces a file on saving is nothing special.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from lumia.pkg.dev.project import SKIPPED

EVERY = 0.12
"""Seconds between two looks; more where looking itself takes long."""
_SHARE = 0.1
Print = dict[str, tuple[int, int, int]]


def footprint(folder: Path) -> Print:
    """Return time, size and inode of every file of a plugin, by path."""
    return {str(file): told for file in _files(folder) if (told := _told(file))}


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        yield from (Path(parent, name) for name in files if not name.startswith((".", "#")) and name[-1] != "~")


def _told(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:  # gone since it was listed, or not ours to see
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def changed(before: Print, after: Print) -> list[str]:
    """Return the files that are not the same in both."""
    return sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))


class Watcher:
    """Calls `saved` with the changed files once a save is complete, from a thread of its own, until `stop`."""

    def __init__(self, folders: Sequence[Path], saved: Callable[[list[str]], None], every: float = EVERY) -> None:
        self._folders, self._saved, self._every = folders, saved, every
        self._stopping = threading.Event()
        self._known = self._look()
        self._thread = threading.Thread(target=self._watch, name="lumia-watch", daemon=True)
        self._thread.start()

    def _look(self) -> Print:
        return {file: told for folder in self._folders for file, told in footprint(folder).items()}

    def _watch(self) -> None:
        before, pause = self._known, self._every
        while not self._stopping.wait(pause):
            began = time.monotonic()
            now = self._look()
            pause = max(self._every, (time.monotonic() - began) / _SHARE)
            # An editor that is still writing is waited for: two looks must agree.
            if now == before and now != self._known:
                files, self._known = changed(self._known, now), now
                self._saved(files)
            before = now

    def stop(self) -> None:
        """Watch no more."""
        self._stopping.set()
        self._thread.join(5)
