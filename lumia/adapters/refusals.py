"""Who was turned away: a request that proves nothing leaves no trace but a number (DESIGN §9)."""

from __future__ import annotations

import contextlib
import threading

from lumia import system
from lumia.errors import BackendUnavailableError
from lumia.store import Store

EVERY = 1.0
"""Seconds between two writes: a flood of refused requests must not become a flood of the store."""


class Refusals:
    """Counts refused requests of one plugin in a gateway; `refused` in its store follows at most once a second.

    plugin: whose store counts, each account in its own scope. Safe in threads.
    """

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._written = float("-inf")

    async def note(self, account: str = "") -> None:
        """Count one, before a 401 or 403; what can't be written now is written with a later one."""
        from lumia import gateway  # loads the web framework, which only a gateway needs

        if self._due(account):
            with contextlib.suppress(BackendUnavailableError, gateway.BusyError):
                await gateway.call(self._write)

    def _due(self, account: str) -> bool:
        with self._lock:
            self._counts[account] = self._counts.get(account, 0) + 1
            now = system.monotonic()
            due = now - self._written >= EVERY
            self._written = now if due else self._written
            return due

    def _write(self) -> None:
        with self._lock:
            counts, self._counts = self._counts, {}
        while counts:
            account, number = counts.popitem()
            try:
                Store(self._plugin).incr("refused", number, scope=account)
            except BaseException:
                with self._lock:
                    for name, more in {**counts, account: number}.items():
                        self._counts[name] = self._counts.get(name, 0) + more
                raise
