"""What one gateway lets a source do per minute, and how many requests it refused."""

from __future__ import annotations

import threading

import lumia

from .source import NAME, Source


class Rates:
    """One token bucket per source: `rate` messages at once, refilled within a minute."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, source: Source) -> float:
        """Return 0.0 when a message may come now, else the seconds to wait."""
        if not source.rate:
            return 0.0
        now, per_second = lumia.system.monotonic(), source.rate / 60
        left, since = self._left.get(source.name, (float(source.rate), now))
        left = min(float(source.rate), left + (now - since) * per_second)
        allowed = left >= 1
        self._left[source.name] = (left - 1 if allowed else left, now)
        return 0.0 if allowed else (1 - left) / per_second


class Refusals:
    """Counts requests without a valid token or signature; the store's counters follow at most once a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._written = float("-inf")

    def note(self, source: Source) -> bool:
        """Count one; True when the counts should be written now."""
        with self._lock:
            self._counts[source.name] = self._counts.get(source.name, 0) + 1
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


rates = Rates()
refusals = Refusals()
