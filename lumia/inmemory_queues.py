"""What of the in-memory transport is about queues that only one process serves, leases and alarms."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lumia.ports import QueueInfo

if TYPE_CHECKING:
    from lumia.inmemory_run import Run
    from lumia.runtime import Runtime
    from lumia.system import Clock


class QueuePort:
    """The part of `InMemoryTransport` that serves private queues: its own threads execute them, like all others.

    A queue nobody has ever served by `embed` is executed like any other, so that tests and replays need no gateway;
    from then on its messages wait while nobody does.
    """

    clock: Clock
    _changed: threading.Condition
    _runs: dict[str, Run]
    number: Callable[[], int]

    def __init__(self) -> None:
        self.alarms: dict[str, tuple[str, str]] = {}
        self.served: Counter[str] = Counter()
        self._leases: dict[str, tuple[str, int, float]] = {}

    @property
    def parked(self) -> set[str]:
        """Return the queues that were served once and are not now."""
        return {queue for queue, by in self.served.items() if not by}

    def executing(self, queues: Mapping[str, int]) -> bool:
        """Tell whether a step on one of these queues is being executed."""
        return any(run.state == "claimed" and run.queue in queues for run in self._runs.values())

    def backlog(self, prefix: str = "") -> list[QueueInfo]:
        """Return what waits in the queues whose name begins with `prefix`."""
        with self._changed:
            now = self.clock.monotonic()
            waits: dict[str, list[float]] = {queue: [] for queue in self.served}
            for run in self._runs.values():
                if run.state == "queued":
                    waits.setdefault(run.queue, []).append(now - run.pushed)
            return [
                QueueInfo(name, len(ages), max(ages, default=0.0), ("memory",) if self.served[name] else ())
                for name, ages in sorted(waits.items())
                if name.startswith(prefix)
            ]

    def embed(self, bot: Runtime) -> EmbeddedQueues:
        """Return a consumer whose queues this transport's own threads execute."""
        return EmbeddedQueues(self, self._changed)

    def lease(self, name: str, holder: str, seconds: float) -> int:
        """Take or keep a lease for `seconds`, or give it back with 0; returns its fencing number, 0 without it."""
        with self._changed:
            now = self.clock.monotonic()
            owner, fence, until = self._leases.get(name, ("", 0, now))
            if until > now and owner != holder:
                return 0
            if not seconds:
                self._leases.pop(name, None)
                return 0
            fence = fence if until > now else self.number()
            self._leases[name] = (holder, fence, now + seconds)
            return fence

    def alarm(self, name: str, what: str, fix: str) -> None:
        """Keep an alarm in `alarms`, or end it where `what` is ""."""
        if what:
            self.alarms[name] = (what, fix)
        else:
            self.alarms.pop(name, None)


class EmbeddedQueues:
    """Implements `lumia.ports.Embedded` for the in-memory transport."""

    def __init__(self, transport: QueuePort, changed: Any) -> None:
        self._transport, self._changed = transport, changed
        self._mine: Counter[str] = Counter()

    def add(self, queue: str) -> None:
        """Take messages from one more queue."""
        with self._changed:
            self._mine[queue] += 1
            self._transport.served[queue] += 1
            self._changed.notify_all()

    def cancel(self, queue: str) -> None:
        """Take no more messages from a queue."""
        with self._changed:
            if self._mine[queue]:
                self._mine[queue] -= 1
                self._transport.served[queue] -= 1

    def drain(self, seconds: float) -> bool:
        """Take no more messages, and wait for what is being executed."""
        with self._changed:
            self._leave()
            return bool(self._changed.wait_for(lambda: not self._transport.executing(self._mine), seconds))

    def stop(self) -> None:
        """End."""
        with self._changed:
            self._leave()

    def _leave(self) -> None:
        for queue, times in self._mine.items():
            self._transport.served[queue] -= times
            self._mine[queue] = 0
