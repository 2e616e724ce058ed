"""Doing what arrives in order within a chat and side by side across chats, with an end to how much may wait.

A socket gives no second delivery, or none before long, so what has arrived is kept here until it is stored. When too
much waits, `put` does, its caller reads no further, and the platform's own buffers fill.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

ROOM = 2000
Work = Callable[[], Awaitable[None]]


class Rows:
    """Those of one account. failed: told what a piece of work has raised; the next one follows all the same.

    room: how much may wait or be under way before `put` waits. dropped: how often work has failed.
    """

    def __init__(self, failed: Callable[[Exception], None], room: int = ROOM) -> None:
        self._failed = failed
        self._room = asyncio.Semaphore(room)
        self._rows: dict[str, deque[Work]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.dropped = 0

    async def put(self, row: str, work: Work) -> None:
        """Let `work` be done after what was put into this row before; waits while there is no room."""
        await self._room.acquire()
        self.begin(row, self._counted(work))

    def begin(self, row: str, work: Work) -> None:
        """As `put`, for the few things that need no room."""
        self._idle.clear()
        self._rows.setdefault(row, deque()).append(work)
        if row not in self._tasks:
            self._begin(row)

    def _begin(self, row: str) -> None:
        self._tasks[row] = asyncio.create_task(self._drain(row))
        self._tasks[row].add_done_callback(lambda task: self._drained(row))

    async def idle(self) -> None:
        """Wait until nothing waits."""
        await self._idle.wait()

    def cancel(self) -> None:
        """Leave everything that waits or is under way; nothing may be put in any more."""
        self._rows.clear()
        for task in self._tasks.values():
            task.cancel()

    async def abandon(self) -> None:
        """Do what `cancel` does, and wait until nothing is under way."""
        tasks = list(self._tasks.values())
        self.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _counted(self, work: Work) -> Work:
        async def counted() -> None:
            try:
                await work()
            finally:
                self._room.release()

        return counted

    async def _drain(self, row: str) -> None:
        while self._rows.get(row):
            await self._done(self._rows[row].popleft())

    def _drained(self, row: str) -> None:
        del self._tasks[row]
        if self._rows.get(row):  # what was put in when the last had just been done
            self._begin(row)
            return
        self._rows.pop(row, None)
        if not self._tasks:
            self._idle.set()

    async def _done(self, work: Work) -> None:
        try:
            await work()
        except Exception as error:
            self.dropped += 1
            self._failed(error)
