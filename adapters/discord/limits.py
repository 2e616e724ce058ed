"""Discord's rate limits as its answers tell them, per bucket and top-level resource (topics/rate-limits.mdx).

The state is this process's own: a chat's sends run one after the other in the chat's lane, so a channel's bucket is
used by one process at a time; others learn from their first answer or, at worst, from one 429.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import lumia

INVALID_WINDOW = 600.0
INVALID_MOST = 2000
"""Answers 401, 403 and 429 in ten minutes after which this process asks no more: a fifth of what gets an IP banned."""


@dataclass(frozen=True)
class Route:
    """What a request is limited by. template: method and path with ids left out; major: its top-level resource.

    free: the global limit does not count it (interactions).
    """

    template: str
    major: str = ""
    free: bool = False


@dataclass
class _Bucket:
    remaining: int
    until: float


class Limits:
    """What one bot may ask now. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._named: dict[str, str] = {}
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._everything = float("-inf")
        self._invalid: deque[float] = deque()

    def take(self, route: Route) -> float:
        """Count a request that is about to be made and return 0.0, or return the seconds to wait before it."""
        now = lumia.system.monotonic()
        with self._lock:
            if not route.free and self._everything > now:
                return self._everything - now
            if len(self._fresh(now)) >= INVALID_MOST:
                return self._invalid[0] + INVALID_WINDOW - now
            bucket = self._buckets.get(self._key(route))
            if bucket is None or bucket.until <= now:
                return 0.0
            if bucket.remaining <= 0:
                return bucket.until - now
            bucket.remaining -= 1
            return 0.0

    def learn(self, route: Route, status: int, headers: Mapping[str, str]) -> None:
        """Take in the headers of an answer."""
        now = lumia.system.monotonic()
        shared = headers.get("x-ratelimit-scope", "") == "shared"
        with self._lock:
            if status in (401, 403) or (status == 429 and not shared):
                self._fresh(now).append(now)
            self._learn_bucket(route, headers, now)

    def hold(self, route: Route, wait: float, *, everything: bool) -> None:
        """Ask nothing of this route, or nothing at all, for `wait` seconds: the answer was a 429."""
        until = lumia.system.monotonic() + wait
        with self._lock:
            if everything:
                self._everything = max(self._everything, until)
            else:
                self._buckets[self._key(route)] = _Bucket(0, until)

    @property
    def invalid(self) -> int:
        """Return how many answers of the last ten minutes count towards a ban."""
        with self._lock:
            return len(self._fresh(lumia.system.monotonic()))

    def _learn_bucket(self, route: Route, headers: Mapping[str, str], now: float) -> None:
        name = headers.get("x-ratelimit-bucket", "")
        remaining, after = (
            _number(headers.get("x-ratelimit-remaining")),
            _number(headers.get("x-ratelimit-reset-after")),
        )
        if name:
            self._named[route.template] = name
        if remaining is None or after is None:
            return
        key = self._key(route)
        known = self._buckets.get(key)
        left = int(remaining)
        if known is not None and known.until > now:  # answers may overtake each other
            left = min(left, known.remaining)
        self._buckets[key] = _Bucket(left, now + after)
        if len(self._buckets) > 4096:
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if bucket.until > now}

    def _key(self, route: Route) -> tuple[str, str]:
        return self._named.get(route.template, route.template), route.major

    def _fresh(self, now: float) -> deque[float]:
        while self._invalid and self._invalid[0] <= now - INVALID_WINDOW:
            self._invalid.popleft()
        return self._invalid


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < 10**9 else None
