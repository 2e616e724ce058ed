"""Ends what takes too long: one thread per process that shuts the sockets of calls which are past their time.

A frozen database server keeps no statement timeout of its own, and a read that waits for it can't be interrupted
otherwise. One thread serves all connections: a timer for each transaction would cost more than a quick query. Time is
the machine's, not `lumia.system`'s: a server hangs for real, whatever a test or a replay makes of the clock.
"""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Watchdog:
    """Sockets that are to be shut at a moment unless they are released before; safe in threads, and after a fork."""

    def __init__(self) -> None:
        self._reset()

    @contextmanager
    def limited(self, fileno: int, seconds: float) -> Iterator[None]:
        """Shut the socket behind `fileno` when the block takes longer than `seconds`."""
        if self._pid != os.getpid():
            self._reset()
        handle = socket.socket(fileno=os.dup(fileno))
        number = next(self._numbers)
        ends = time.monotonic() + seconds
        with self._changed:
            self._watched[number] = ends, handle
            self._start()
            if ends < self._wakes:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(number, None)
            handle.close()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._watched: dict[int, tuple[float, socket.socket]] = {}
        self._thread: threading.Thread | None = None
        self._wakes = float("inf")

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="memory-watchdog", daemon=True)
            self._thread.start()

    def _watch(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                for number in [number for number, (ends, _) in self._watched.items() if ends <= now]:
                    _, handle = self._watched.pop(number)
                    with suppress(OSError):
                        handle.shutdown(socket.SHUT_RDWR)
                self._wakes = min((ends for ends, _ in self._watched.values()), default=now + 3600.0)
                self._changed.wait(max(0.0, self._wakes - now))
