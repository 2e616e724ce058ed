"""The journal of the in-memory transport: its entries, and who waits for more of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from lumia.errors import PayloadError
from lumia.history import MemoryHistory
from lumia.journal import JournalEntry
from lumia.system import Clock


class Journal:
    """The newest entries, at most `limit()` bytes of them. Not safe for threads: the transport holds its lock.

    number: gives a number larger than any before, for the cursors.
    """

    def __init__(self, clock: Clock, number: Callable[[], int], limit: Callable[[], int]) -> None:
        self._clock, self._number, self._limit = clock, number, limit
        self.entries: deque[JournalEntry] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0

    @property
    def cursor(self) -> str:
        """Return the newest cursor, "0" while there is no entry."""
        return self.entries[-1].cursor if self.entries else "0"

    def add(self, entry: JournalEntry) -> None:
        """Write an entry; the oldest ones make room for it."""
        self.entries.append(replace(entry, cursor=str(self._number()), time=self._clock.now()))
        self._sizes.append(len(entry.dump()))
        self._bytes += self._sizes[-1]
        while self._bytes > self._limit() and len(self.entries) > 1:
            self.entries.popleft()
            self._bytes -= self._sizes.popleft()

    def place(self, cursor: str) -> int:
        """Return where a cursor stands, "$" for now; raises `PayloadError` for what is none."""
        if cursor == "$":
            return self._number()
        if cursor.isdecimal():
            return int(cursor)
        raise PayloadError(f"{cursor[:80]!r} is no place in the journal: use '0', '$' or the cursor of an entry")

    def after(self, place: int) -> list[JournalEntry]:
        """Return the entries after a place, oldest first."""
        return list(takewhile(lambda entry: int(entry.cursor) > place, reversed(self.entries)))[::-1]


class JournalPort:
    """The journal's part of `InMemoryTransport`."""

    _changed: threading.Condition
    _journal: Journal
    _closing: bool

    def tail(self, after: str, timeout: float, limit: int) -> list[JournalEntry]:
        """Return entries after a cursor, waiting up to `timeout` seconds for one."""
        with self._changed:
            place = self._journal.place(after)
            self._changed.wait_for(lambda: int(self._journal.cursor) > place or self._closing, timeout)
            return self._journal.after(place)[: max(0, limit)]

    def cursor(self) -> str:
        """Return the journal's newest cursor, "0" while it is empty."""
        with self._changed:
            return self._journal.cursor

    def history(self) -> MemoryHistory:
        """Return the runs that the journal tells of until now."""
        with self._changed:
            return MemoryHistory(self._journal.entries)
