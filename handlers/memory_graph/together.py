"""Group commit: what several threads write at the same moment goes into one transaction.

A commit and a dozen statements cost as much for one message as for many. So whoever comes first writes what is waiting
then; whoever comes meanwhile waits and is written with the next. Everybody gets the outcome of their own write, and
only once it is committed. Where a batch fails, each writes alone: what one can't write keeps nobody else from it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

MOST = 32
"""Writes of one batch."""
PATIENCE_SECONDS = 0.003
"""So long a batch waits for those that were written with the last one and may come again; about what a message that is
written alone takes. Who writes alone waits for nobody."""

Item = TypeVar("Item")
Done = TypeVar("Done")


class Group(Generic[Item, Done]):
    """Writers of one process; safe in threads.

    write: writes items in one transaction and returns what became of each, in their order. It must be safe to call it
    again with an item whose first attempt failed.
    """

    def __init__(self, write: Callable[[Sequence[Item]], Sequence[Done]]) -> None:
        self._write = write
        self._changed = threading.Condition()
        self._queue: deque[_Waiting[Item, Done]] = deque()
        self._writing = False
        self._busy = 0

    def write(self, item: Item) -> Done:
        """Write one item, alone or with others, and return what became of it; raises what `write` raises."""
        mine: _Waiting[Item, Done] = _Waiting(item)
        with self._changed:
            self._queue.append(mine)
            self._changed.notify_all()
        while batch := self._due(mine):  # the oldest first: where more wait than a batch takes, one's own comes later
            self._write_batch(batch, mine)
        with self._changed:
            self._changed.wait_for(lambda: mine.over)
        if mine.done is None:
            return self._write([item])[0]
        return mine.done[0]

    def _due(self, mine: _Waiting[Item, Done]) -> list[_Waiting[Item, Done]]:
        """Return what is to be written by this thread next, nothing once somebody writes `mine`."""
        with self._changed:
            self._changed.wait_for(lambda: mine.taken or not self._writing)
            return [] if mine.taken else self._take()

    def _take(self) -> list[_Waiting[Item, Done]]:
        """Return what is waiting, after a moment for those that were written with the last batch."""
        self._writing = True
        expected = min(MOST, self._busy)
        try:
            self._changed.wait_for(lambda: len(self._queue) >= expected, PATIENCE_SECONDS)
        except BaseException:
            self._writing = False
            self._changed.notify_all()
            raise
        batch = [self._queue.popleft() for _ in range(min(MOST, len(self._queue)))]
        for one in batch:
            one.taken = True
        self._busy = len(batch) + len(self._queue)
        return batch

    def _write_batch(self, batch: list[_Waiting[Item, Done]], mine: _Waiting[Item, Done]) -> None:
        try:
            for one, done in zip(batch, self._write([one.item for one in batch]), strict=True):
                one.done = (done,)
        except Exception:
            if batch == [mine]:
                raise
        finally:
            with self._changed:
                for one in batch:
                    one.over = True
                self._writing = False
                self._changed.notify_all()


class _Waiting(Generic[Item, Done]):
    """An item in the queue. taken: somebody writes it; over: that has ended, with `done` unless it failed."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.taken = self.over = False
        self.done: tuple[Done] | None = None
