"""Taking events in: in order within a chat, side by side across chats.

A WebSocket gives no second delivery, so what has arrived is kept here until it is stored. When too much waits, reading
stops and the peer's own buffers fill. What a killed process held comes back by backfill.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from lumia.errors import BoxError, PayloadError

ROOM = 2000
Work = Callable[[], Awaitable[None]]
_log = logging.getLogger("lumia.onebot")


class Inlet:
    """One account's. room: how much may wait before `put` does."""

    def __init__(self, account: str, room: int = ROOM) -> None:
        self._account = account
        self._room = asyncio.Semaphore(room)
        self._lanes: dict[str, deque[Work]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.dropped = 0

    async def put(self, lane: str, work: Work) -> None:
        """Let `work` be done after what was put into this lane before; waits while there is no room."""
        await self._room.acquire()
        self.begin(lane, self._counted(work))

    def begin(self, lane: str, work: Work) -> None:
        """As `put`, for the few things that need no room."""
        self._idle.clear()
        self._lanes.setdefault(lane, deque()).append(work)
        if lane not in self._tasks:
            self._tasks[lane] = asyncio.create_task(self._drain(lane))

    async def idle(self) -> None:
        """Wait until nothing waits."""
        await self._idle.wait()

    def _counted(self, work: Work) -> Work:
        async def counted() -> None:
            try:
                await work()
            finally:
                self._room.release()

        return counted

    async def _drain(self, lane: str) -> None:
        try:
            while self._lanes[lane]:
                await self._done(self._lanes[lane].popleft())
        finally:
            del self._lanes[lane], self._tasks[lane]
            if not self._tasks:
                self._idle.set()

    async def _done(self, work: Work) -> None:
        try:
            await work()
        except Exception as error:
            self.dropped += 1
            _log.error("onebot account %s: an event could not be taken in: %s", self._account, error,
                       exc_info=None if isinstance(error, (BoxError, PayloadError)) else error)  # fmt: skip
