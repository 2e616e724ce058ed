"""What a socket sends under numbers, done in order per chat: how far all is done is where the next one goes on."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from lumia.adapters.rows import Rows, Work
from lumia.errors import LumiaError

MOST = 1000
"""How much may wait to be done; with more, whoever reads should wait for `room`."""
AT_ONCE = 64
SAVE_EVERY = 0.25
"""Seconds between two writes of how far it is; what came since is sent again, and known again."""
_LAST_SAVE = 0.8
_log = logging.getLogger("lumia.adapters")


@dataclass
class _Entry:
    number: int | None
    done: bool = False


class Numbered:
    """What arrives over one connection after the other. whose: for the log, e.g. "discord/main".

    committed: the number up to which, in the order of arrival, everything is done; None for none. newest: the last
    number that arrived. moved: set when there may be something new to save.
    """

    def __init__(self, whose: str, committed: int | None = None) -> None:
        self._whose = whose
        self.committed = self.newest = committed
        self.moved = asyncio.Event()
        self._rows = Rows(self._failed)
        self._order: deque[_Entry] = deque()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._roomy = asyncio.Event()

    @property
    def full(self) -> bool:
        """Tell whether too much waits."""
        return len(self._order) >= MOST

    def offer(self, row: str, number: int | None, work: Work) -> None:
        """Let `work` be done after what was offered for this row before; number: None for one that counts nothing."""
        self._rows.begin(row, partial(self._do, self._taken(number), work))

    def skip(self, number: int) -> None:
        """Take in a number with which there is nothing to do."""
        self._taken(number).done = True
        self._advance()

    def _taken(self, number: int | None) -> _Entry:
        self.newest = self.newest if number is None else number
        entry = _Entry(number)
        self._order.append(entry)
        return entry

    async def _do(self, entry: _Entry, work: Work) -> None:
        async with self._slots:
            try:
                await work()
            except Exception as error:
                self._failed(error)
        entry.done = True
        self._advance()

    def _failed(self, error: Exception) -> None:
        _log.error("%s: something that arrived was not taken", self._whose, exc_info=error)

    def _advance(self) -> None:
        while self._order and self._order[0].done:
            number = self._order.popleft().number
            self.committed = self.committed if number is None else number
        self.moved.set()
        if len(self._order) <= MOST // 2:
            self._roomy.set()

    async def room(self, seconds: float | None = None) -> bool:
        """Wait until half of what may wait is done; False when that takes longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while len(self._order) > MOST // 2:
                    self._roomy.clear()
                    await self._roomy.wait()
        except TimeoutError:
            return False
        return True

    async def settle(self) -> None:
        """Wait until everything is done."""
        await self._rows.idle()

    def restart(self) -> None:
        """Begin to count anew, once everything is settled: the platform does."""
        self.committed = self.newest = None

    @asynccontextmanager
    async def kept(self, save: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Call `save` now and then while inside, when there may be something new, and once more at the end.

        At the end what is not done is left: it will be sent again. What the broker does not take is saved with later.
        """
        saving = asyncio.create_task(self._keep(save))
        try:
            yield
        finally:
            saving.cancel()
            await self._rows.abandon()
            self._order.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SAVE):
                    await self._saved(save)

    async def _keep(self, save: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.moved.wait()
            self.moved.clear()
            await self._saved(save)
            await asyncio.sleep(SAVE_EVERY)

    async def _saved(self, save: Callable[[], Awaitable[None]]) -> None:
        from lumia.gateway import BusyError  # see lumia.adapters.holding

        try:
            with suppress(LumiaError, BusyError):
                await save()
        except Exception:  # the next one may succeed; without any, all would be sent again one day
            _log.exception("%s: how far it is was not written down", self._whose)
