"""The journal's stream in Redis as the archiver uses it; every change is a script (docs/redis.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumia.journal import JournalEntry
from tasks.archive.measures import Measures, measure
from tasks.archive.rows import START, StreamRow, position, stream_row
from tasks.transport import RedisTransport

LEASE_SECONDS = 20.0
"""Longer than connecting and one batch may take, see `tasks.archive.database`."""


class Stream:
    """The stream, the places that the archive and compaction have reached, the lease and the alarms."""

    def __init__(self, transport: RedisTransport) -> None:
        self.transport = transport
        self._redis: Any = transport.redis
        self._prefix = transport.prefix

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def lease(self, seconds: float = LEASE_SECONDS) -> bool:
        """Take or keep the lease; tells whether this process is the archiver. 0 seconds give it back."""
        return int(self.transport.call("lease", self.transport.worker, int(seconds * 1000))) == 1

    def holder_host(self) -> str:
        """Return the machine of the process that archives now, "" when none does."""
        found = self._redis.get(self._key("journal:lease")) or b""
        return str(found.decode().partition(":")[0])

    def now(self) -> float:
        """Return the server's time, which the entries have, in seconds since 1970."""
        seconds, micros = self._redis.time()
        return int(seconds) + int(micros) / 1_000_000

    def archived(self) -> str:
        """Return the place up to which everything is in the archive."""
        return self._place("journal:archived")

    def compacted(self) -> str:
        """Return the place up to which ended runs were reduced."""
        return self._place("journal:compacted")

    def _place(self, name: str) -> str:
        found = self._redis.get(self._key(name))
        return found.decode() if found else START

    def set_compacted(self, cursor: str) -> None:
        """Note how far compaction has come; doing a stretch twice does no harm."""
        self._redis.set(self._key("journal:compacted"), cursor)

    def read(self, after: str, count: int, until: str = "+") -> list[StreamRow]:
        """Return at most `count` rows after a place, oldest first."""
        ms, number = position(after)
        rows = self._redis.xrange(self._key("journal"), f"{ms}-{number + 1}", until, count=count)
        return [stream_row(cursor, fields) for cursor, fields in rows]

    def bytes(self) -> int:
        """Return what the stream counts in bytes."""
        return int(self._redis.get(self._key("journal:bytes")) or 0)

    def length(self) -> int:
        """Return the number of rows."""
        return int(self._redis.xlen(self._key("journal")))

    def advance(self, since: str, until: str, rows: int) -> bool:
        """Say that the rows from one place to another are in the archive; False when somebody else has said so."""
        return int(self.transport.call("advance", since, until, rows)) == 1

    def trim(self, may: str, must: str, soft: int, most: int = 2000) -> int:
        """Take archived rows off the old end: up to `must`, and up to `may` while it is over `soft` bytes."""
        return int(self.transport.call("trim", may, must, soft, most))

    def compact(self, runs: Sequence[str]) -> int:
        """Reduce the finished ones among these runs; returns how many were."""
        return int(self.transport.call("compact", *runs)) if runs else 0

    def note(self, entry: JournalEntry) -> None:
        """Write an entry."""
        self.transport.call("note", self.transport.limits.journal_bytes, entry.dump())

    def alarm(self, name: str, what: str, fix: str) -> None:
        """Raise an alarm."""
        self.transport.call("alarm", name, what, fix)

    def settle(self, name: str) -> None:
        """End an alarm."""
        self.transport.call("alarm", name, "", "")

    def tell(self, facts: dict[str, Any]) -> None:
        """Say how the archiver is doing, for `lumia status`."""
        self._redis.hset(self._key("archiver"), mapping={name: str(value) for name, value in facts.items()})

    def measures(self) -> Measures:
        """Return how far the archive is behind, and the alarms."""
        return measure(self._redis.execute_command, self._prefix)
