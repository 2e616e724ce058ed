"""The messages of the in-memory transport: by priority, and by age where more urgent ones keep coming."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field


@dataclass
class _Queue:
    """heap: (priority, number, run). lower: (pushed, number, run) of all that are not urgent. live: not taken yet."""

    heap: list[tuple[int, int, str]] = field(default_factory=list)
    lower: deque[tuple[float, int, str]] = field(default_factory=deque)
    live: set[int] = field(default_factory=set)
    promoted: bool = False

    def head(self) -> tuple[int, int, str]:
        """Return the message that comes next by priority; one that sorts behind all when there is none."""
        while self.heap and self.heap[0][1] not in self.live:
            heapq.heappop(self.heap)
        return self.heap[0] if self.heap else (99, 0, "")

    def overdue(self, before: float) -> tuple[float, int, str] | None:
        """Return the oldest message that is not urgent, if it was pushed before a time."""
        while self.lower and self.lower[0][1] not in self.live:
            self.lower.popleft()
        return self.lower[0] if self.lower and self.lower[0][0] <= before else None


class Ready:
    """Runs whose next step may be claimed; every other claim at most goes to one that is overdue."""

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._numbers = itertools.count(1)

    def push(self, queue: str, priority: int, run_id: str, now: float) -> None:
        """Add a message."""
        found, number = self._queues.setdefault(queue, _Queue()), next(self._numbers)
        heapq.heappush(found.heap, (priority, number, run_id))
        found.live.add(number)
        if priority:
            found.lower.append((now, number, run_id))

    def pop(self, queue: str | None, now: float, ageing: float, parked: Collection[str] = ()) -> str:
        """Return the run whose turn it is, "" when there is none. ageing: see `Limits`; queue: any when None.

        parked: queues nobody takes from at the moment.
        """
        names = [queue] if queue else sorted(self._queues, key=lambda name: self._queues[name].head()[:2])
        names = [name for name in names if name not in parked]
        for name in names:
            found = self._queues.get(name)
            if found is not None and found.head()[2]:
                return _pop(found, now - ageing if ageing else float("-inf"))
        return ""


def _pop(queue: _Queue, before: float) -> str:
    late = None if queue.promoted else queue.overdue(before)
    queue.promoted = late is not None
    _, number, run_id = late or queue.head()
    queue.live.discard(number)
    return run_id
