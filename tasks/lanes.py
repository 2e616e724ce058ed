"""What Redis knows of lanes: the refusals of its scripts, and who waits where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from redis import Redis

from lumia.errors import LaneFullError, RateLimitedError
from lumia.lanes import TOTALS, LaneInfo, LaneReport, full_text, limited_text

PREFIX = "lane "
"""Of the names of the counters."""
PAGE = 500


def check(reply: Sequence[bytes]) -> None:
    """Raise what a script's reply says of a lane or a rate that refuses a run."""
    if reply[0] == b"full":
        raise LaneFullError(full_text(reply[1].decode(), int(reply[2]), int(reply[3])))
    if reply[0] == b"limited":
        wait = float(reply[3]) / 1000
        raise RateLimitedError(limited_text(reply[1].decode(), reply[2].decode(), wait), wait=wait)


def report(redis: Redis, prefix: str, pattern: str, limit: int) -> LaneReport:
    """Return the lanes that are not idle; they go on meanwhile, so figures of one lane may be a moment apart."""
    raw: Any = redis  # replies are bytes, see RedisTransport
    seconds, micros = raw.time()
    held = {
        key: value.split() for key, value in islice(raw.hscan_iter(f"{prefix}lanes", match=pattern, count=PAGE), limit)
    }
    collecting = _collecting(raw, prefix, pattern, limit)
    keys = list({**held, **collecting})
    waiting = dict(_waiting(raw, prefix, keys, seconds + micros / 1e6))
    found = [
        LaneInfo(key.decode(), *_holder(held.get(key)), *waiting[key], collecting.get(key, 0)) for key in keys
    ]  # fmt: skip
    counters = raw.hmget(f"{prefix}stats", [PREFIX + name for name in TOTALS])
    totals = {name: int(count or 0) for name, count in zip(TOTALS, counters, strict=True)}
    return LaneReport(tuple(sorted(found, key=lambda one: (-one.waiting, one.key))[:limit]), totals)


def _holder(value: list[bytes] | None) -> tuple[str, float]:
    return (value[0].decode(), int(value[1]) / 1000) if value else ("", 0.0)


def _collecting(raw: Any, prefix: str, pattern: str, limit: int) -> dict[bytes, int]:
    """Return how many bursts each lane collects; one that waits in the lane already is no longer counted."""
    bursts = list(islice(raw.hscan_iter(f"{prefix}bursts", match=f"{pattern}\n*", count=PAGE), limit))
    found: dict[bytes, int] = {}
    for page in _pages(bursts):
        with raw.pipeline(transaction=False) as batch:
            for _, run in page:
                batch.hget(f"{prefix}r:{run.decode()}", "s")
            states = batch.execute()
        for (name, _), state in zip(page, states, strict=True):
            key = name.partition(b"\n")[0]
            found[key] = found.get(key, 0) + (state == b"d")
    return {key: count for key, count in found.items() if count}


def _waiting(raw: Any, prefix: str, keys: list[bytes], now: float) -> Iterator[tuple[bytes, tuple[int, float]]]:
    """Yield, for each lane, how many runs wait in it and how long the first one has."""
    for page in _pages(keys):
        with raw.pipeline(transaction=False) as batch:
            for key in page:
                batch.llen(f"{prefix}lane:{key.decode()}").lindex(f"{prefix}lane:{key.decode()}", 0)
            lengths = batch.execute()
            for run in lengths[1::2]:
                batch.hget(f"{prefix}r:{(run or b'').decode()}", "b")
            begun = batch.execute()
        for key, length, start in zip(page, lengths[::2], begun, strict=True):
            yield key, (length, round(max(0.0, now - int(start) / 1000), 3) if start else 0.0)


def _pages(items: list[Any]) -> Iterator[list[Any]]:
    return (items[at : at + PAGE] for at in range(0, len(items), PAGE))
