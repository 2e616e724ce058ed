"""The journal, live: one thread reads it, every subscriber gets each entry (DESIGN §2).

A slow or late subscriber is told of a gap instead of holding up the others; it then reads what it needs from the store.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from lumia.errors import LumiaError
from lumia.journal import JournalEntry

Tail = Callable[[str, float], list[JournalEntry]]
"""(cursor, seconds) → entries after the cursor, waiting at most that long."""

_POLL = 1.0
_ROOM = 1000
_log = logging.getLogger("lumia.gateway")


class Subscription:
    """One reader of the feed; iterating gives entries, and None where some were missed."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[JournalEntry | None] = asyncio.Queue(_ROOM)

    async def get(self) -> JournalEntry | None:
        """Wait for the next entry; None means that entries were missed before this point."""
        return await self._queue.get()

    def push(self, entry: JournalEntry | None) -> None:
        """Hand over an entry; when the reader is too far behind, what it has not read becomes one gap."""
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            self._queue.put_nowait(None)
        self._queue.put_nowait(entry)


class JournalFeed:
    """Reads the journal while somebody listens."""

    def __init__(self, tail: Tail, cursor: Callable[[], str]) -> None:
        self._tail, self._cursor = tail, cursor
        self._subscribers: set[Subscription] = set()
        self._reader: _Reader | None = None

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[Subscription]:
        """Give a subscription that sees every entry from now on."""
        mine = Subscription()
        self._subscribers.add(mine)
        if self._reader is None:
            self._reader = _Reader(self._tail, self._cursor, self._publish)
        try:
            yield mine
        finally:
            self._subscribers.discard(mine)
            if not self._subscribers:
                self.close()

    def close(self) -> None:
        """Stop reading; the thread ends within a second."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.stop()

    def _publish(self, reader: _Reader, entries: list[JournalEntry | None]) -> None:
        if reader is not self._reader:
            return
        for subscriber in self._subscribers:
            for entry in entries:
                subscriber.push(entry)


class _Reader:
    """The thread that reads; one lives from the first subscriber's coming to the last one's leaving."""

    def __init__(
        self,
        tail: Tail,
        newest: Callable[[], str],
        publish: Callable[[_Reader, list[JournalEntry | None]], None],
    ) -> None:
        self._tail, self._newest, self._publish = tail, newest, publish
        self._loop = asyncio.get_running_loop()
        self._stopped = threading.Event()
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._run,), name="lumia-journal", daemon=True).start()

    def stop(self) -> None:
        """Let the thread end after its current read."""
        self._stopped.set()

    def _run(self) -> None:
        cursor, healthy = "", True
        while not self._stopped.is_set():
            try:
                cursor = cursor or self._newest()
                entries = self._tail(cursor, _POLL)
            except LumiaError as error:
                if healthy:
                    _log.warning("the journal can't be read, pages wait: %s", error)
                healthy = False
                self._stopped.wait(_POLL)
                continue
            if not healthy:
                self._hand_over([None])
                healthy = True
            if entries:
                cursor = entries[-1].cursor
                self._hand_over([*entries])

    def _hand_over(self, entries: list[JournalEntry | None]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._publish, self, entries)
        except RuntimeError:
            self._stopped.set()  # the loop is closed: the gateway is gone
