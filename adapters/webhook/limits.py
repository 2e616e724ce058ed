"""What one gateway lets a source do per minute."""

from __future__ import annotations

import lumia

from .source import Source


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


rates = Rates()
