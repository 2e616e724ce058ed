"""How many posts came without the secret: a number in the store, written at most once a second."""

from __future__ import annotations

import threading

import lumia

from .accounts import NAME

_lock = threading.Lock()
_counts: dict[str, int] = {}
_written = float("-inf")


def note(account: str) -> bool:
    """Count one; True when the counts should be written now."""
    global _written
    with _lock:
        _counts[account] = _counts.get(account, 0) + 1
        now = lumia.system.monotonic()
        due = now - _written >= 1.0
        _written = now if due else _written
        return due


def write() -> None:
    """Add the counts to the store's."""
    with _lock:
        counts = dict(_counts)
        _counts.clear()
    for account, number in counts.items():
        lumia.store.of(NAME).incr("refused", number, scope=account)
