"""Slack takes about one message a second per channel, with short bursts: who is ahead comes back later."""

from __future__ import annotations

import threading

import lumia
from lumia.errors import RetryAfterError

from .accounts import Account

BURST = 4
PER_SECOND = 1.0
_FORGET = 1000


class Pace:
    """One token bucket per channel and process; what it lets through too much, Slack answers with its own pause."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[tuple[Account, str], tuple[float, float]] = {}

    def take(self, account: Account, channel: str) -> None:
        """Take one message's turn; raises `RetryAfterError` when it isn't one yet, so that no worker waits."""
        now = lumia.system.monotonic()
        with self._lock:
            left, since = self._left.get((account, channel), (float(BURST), now))
            left = min(float(BURST), left + max(0.0, now - since) * PER_SECOND)
            self._left[account, channel] = (left - 1 if left >= 1 else left, now)
            if len(self._left) > _FORGET:
                self._left = {key: value for key, value in self._left.items() if now - value[1] < BURST / PER_SECOND}
        if left < 1:
            raise RetryAfterError(f"{channel} has had {BURST} messages at once", wait=(1 - left) / PER_SECOND)


pace = Pace()
