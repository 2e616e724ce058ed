"""How many requests were refused because nothing proved that they come from Slack."""

from __future__ import annotations

import threading

import lumia

from .accounts import NAME


class Refusals:
    """Counts per account; the store's counters follow at most once a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._written = float("-inf")

    def note(self, account: str) -> bool:
        """Count one; True when the counts should be written now."""
        with self._lock:
            self._counts[account] = self._counts.get(account, 0) + 1
            now = lumia.system.monotonic()
            due = now - self._written >= 1.0
            self._written = now if due else self._written
            return due

    def write(self) -> None:
        """Add the counts to the store's."""
        with self._lock:
            counts, self._counts = self._counts, {}
        for name, number in counts.items():
            lumia.store.of(NAME).incr("refused", number, scope=name)


refusals = Refusals()
