"""How the journal and its archive are doing, in numbers, read from Redis alone.

`ask` sends one command and returns its reply in bytes, as redis-py's `execute_command` and `tasks.supervise.resp` do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tasks.archive.rows import START, position

Ask = Callable[..., Any]


@dataclass(frozen=True)
class Alarm:
    """Something an operator should know. since, at: when it was first and last noticed; fix: the way out."""

    name: str
    what: str
    fix: str
    since: float
    at: float
    count: int = 1


@dataclass(frozen=True)
class Measures:
    """bytes: of the stream. lag: entries that are not in the archive, and the age of the oldest in seconds.

    database: ok, away, none (files are the archive) or "" when nobody has archived yet. files, file_bytes: journal
    files of all machines.
    """

    bytes: int = 0
    lag: int = 0
    lag_seconds: float = 0.0
    database: str = ""
    files: int = 0
    file_bytes: int = 0
    alarms: tuple[Alarm, ...] = field(default=())

    def counters(self) -> dict[str, int]:
        """Return the figures by name, for `Health.counters`."""
        return {
            "journal bytes": self.bytes, "archive lag entries": self.lag, "archive lag seconds": int(self.lag_seconds),
            "journal files": self.files, "journal file bytes": self.file_bytes, "alarms": len(self.alarms),
        }  # fmt: skip

    def as_dict(self) -> dict[str, Any]:
        """Return the `journal` of `lumia status --json`."""
        return {
            "bytes": self.bytes, "lag_entries": self.lag, "lag_seconds": round(self.lag_seconds, 3),
            "database": self.database, "files": self.files, "file_bytes": self.file_bytes,
        }  # fmt: skip


def measure(ask: Ask, prefix: str) -> Measures:
    """Return the figures of the bot whose keys have `prefix`."""
    size, archived, held = (_text(value) for value in ask("MGET", *(f"{prefix}journal:{name}" for name in _NAMES)))
    ms, number = position(archived or START)
    oldest = ask("XRANGE", f"{prefix}journal", f"{ms}-{number + 1}", "+", "COUNT", "1")
    waiting = int(ask("XLEN", f"{prefix}journal")) - int(held or 0) if oldest else 0
    facts = _pairs(ask("HGETALL", f"{prefix}archiver"))
    return Measures(
        int(size or 0), max(0, waiting), _age(ask, oldest[0][0]) if oldest else 0.0, facts.get("database", ""),
        _sum(facts, "files "), _sum(facts, "file bytes "), tuple(alarms(ask, prefix)),
    )  # fmt: skip


_NAMES = ("bytes", "archived", "held")


def alarms(ask: Ask, prefix: str) -> list[Alarm]:
    """Return the alarms, oldest first."""
    found = [_alarm(name, text) for name, text in _pairs(ask("HGETALL", f"{prefix}alarms")).items()]
    return sorted(found, key=lambda alarm: alarm.since)


def _alarm(name: str, text: str) -> Alarm:
    told = json.loads(text)
    return Alarm(name, told["what"], told["fix"], told["since"], told["at"], int(told["count"]))


def _age(ask: Ask, cursor: bytes) -> float:
    now = ask("TIME")
    seconds, micros = (now[0], now[1])
    return max(0.0, int(seconds) + int(micros) / 1_000_000 - position(_text(cursor))[0] / 1000)


def _sum(facts: Mapping[str, str], head: str) -> int:
    return sum(int(value) for name, value in facts.items() if name.startswith(head))


def _pairs(reply: Any) -> dict[str, str]:
    """Return a hash: redis-py gives a dict, a bare connection a flat list."""
    if isinstance(reply, dict):
        return {_text(name): _text(value) for name, value in reply.items()}
    texts = [_text(item) for item in reply]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
