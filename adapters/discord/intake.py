"""What the Gateway dispatches, stored in order per channel and many channels at once, before its number counts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from .session import Progress

MOST_PENDING = 1000
"""Dispatches that may wait to be stored; with more, reading stops."""
AT_ONCE = 64

Take = Callable[[str, dict[str, Any], int], Awaitable[None]]


class Intake:
    """Runs `take(type, data, seq)` for dispatches. progress: advanced as they are done."""

    def __init__(self, take: Take, progress: Progress, *, at_once: int = AT_ONCE) -> None:
        self._take, self.progress = take, progress
        self._slots = asyncio.Semaphore(at_once)
        self._lanes: dict[str, deque[tuple[str, dict[str, Any], int]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.moved = asyncio.Event()
        self._roomy = asyncio.Event()

    @property
    def full(self) -> bool:
        """Tell whether too many dispatches wait."""
        return self.progress.pending >= MOST_PENDING

    def offer(self, lane: str, type: str, data: dict[str, Any], seq: int) -> None:
        """Take in a dispatch; those of one lane are done one after the other."""
        if not self.progress.begin(seq):
            return
        waiting = self._lanes.get(lane)
        if waiting is not None:
            waiting.append((type, data, seq))
            return
        self._lanes[lane] = deque([(type, data, seq)])
        task = asyncio.create_task(self._work(lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def skip(self, seq: int) -> None:
        """Take in a dispatch that holds nothing to store."""
        if self.progress.begin(seq):
            self.progress.done(seq)
            self.moved.set()

    async def _work(self, lane: str) -> None:
        waiting = self._lanes[lane]
        while waiting:
            async with self._slots:
                await self._take(*waiting[0])
            self.progress.done(waiting.popleft()[2])
            self.moved.set()
            if self.progress.pending <= MOST_PENDING // 2:
                self._roomy.set()
        del self._lanes[lane]

    async def room(self, seconds: float) -> bool:
        """Wait until half of what may wait is stored; False when that takes longer than `seconds`."""
        self._roomy.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._roomy.wait()
        except TimeoutError:
            return False
        return True

    async def settle(self) -> None:
        """Wait until all is stored."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def abandon(self) -> None:
        """Stop; what is not stored comes again when the session is resumed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._lanes.clear()
        self.progress.forget()
