"""Events of a socket, stored in order per chat and many chats at once; `committed` is how far all of them are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

MOST_PENDING = 1000
"""Events that may wait to be stored; with more, nothing is read."""
AT_ONCE = 64

Take = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass
class _Entry:
    number: int | None
    event: dict[str, Any]
    done: bool = False


class Intake:
    """Runs `take(event)`. committed: the `sn` up to which, in the order of arrival, everything is stored.

    The order of arrival counts, not the size of the number: a server that was started anew counts from the beginning.
    """

    def __init__(self, take: Take, committed: int | None = None) -> None:
        self._take, self.committed = take, committed
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._order: deque[_Entry] = deque()
        self._lanes: dict[str, deque[_Entry]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.moved = asyncio.Event()
        self._roomy = asyncio.Event()

    @property
    def full(self) -> bool:
        """Tell whether too many events wait."""
        return len(self._order) >= MOST_PENDING

    def offer(self, lane: str, event: dict[str, Any]) -> None:
        """Take in an event; those of one lane are done one after the other."""
        number = event.get("sn", event.get("id"))
        entry = _Entry(number if type(number) is int else None, event)
        self._order.append(entry)
        if lane in self._lanes:
            self._lanes[lane].append(entry)
            return
        self._lanes[lane] = deque([entry])
        task = asyncio.create_task(self._work(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, lane: str) -> None:
        waiting = self._lanes[lane]
        while waiting:
            async with self._slots:
                await self._take(waiting[0].event)
            waiting.popleft().done = True
            self._advance()
        del self._lanes[lane]

    def _advance(self) -> None:
        while self._order and self._order[0].done:
            number = self._order.popleft().number
            self.committed = self.committed if number is None else number
        self.moved.set()
        if len(self._order) <= MOST_PENDING // 2:
            self._roomy.set()

    async def room(self) -> None:
        """Wait until half of what may wait is stored."""
        self._roomy.clear()
        if len(self._order) > MOST_PENDING // 2:
            await self._roomy.wait()

    async def abandon(self) -> None:
        """Stop; what is not stored comes again when the session is resumed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._lanes.clear()
        self._order.clear()
