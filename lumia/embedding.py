"""The queues a process consumes beside its other work: a gateway those of the accounts connected to it (DESIGN §4)."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lumia.ports import Embedded
    from lumia.runtime import Runtime

STOP_SECONDS = 5.0
"""How long the end may take, whatever the broker does."""


class Embedding:
    """What a process serves of its bot; the transport's consumer is made for the first queue. Safe for threads."""

    def __init__(self, bot: Runtime) -> None:
        self._bot = bot
        self._lock = threading.Lock()
        self._times: Counter[str] = Counter()
        self._embedded: Embedded | None = None
        self._draining = False

    @property
    def active(self) -> bool:
        """Tell whether there has been a queue to serve."""
        return self._embedded is not None

    @property
    def queues(self) -> list[str]:
        """Return the queues that are served now."""
        return sorted(self._times)

    def add(self, queue: str) -> None:
        """Serve a queue, which may be done several times over: it is served until the last one has left."""
        with self._lock:
            self._times[queue] += 1
            if self._times[queue] == 1 and not self._draining:
                self._embedded = self._embedded or self._bot.transport.embed(self._bot)
                self._embedded.add(queue)

    def leave(self, queue: str) -> None:
        """Serve a queue once less."""
        with self._lock:
            self._times[queue] -= 1
            if self._times[queue] <= 0:
                del self._times[queue]
                if self._embedded is not None and not self._draining:
                    self._embedded.cancel(queue)

    def resume(self) -> None:
        """Serve what is asked for from now on, after a drain."""
        with self._lock:
            self._draining = False

    def drain(self, seconds: float) -> bool:
        """Take no more messages, for good; wait for what is being executed, and tell whether it ended in time."""
        with self._lock:
            self._draining = True
        return self._embedded is None or self._embedded.drain(seconds)

    def stop(self) -> None:
        """End the consumer; what is still being executed is left to other processes."""
        with self._lock:
            embedded, self._embedded, self._draining = self._embedded, None, True
        if embedded is not None:
            # A broker that hangs must not keep the process from its end.
            ending = threading.Thread(target=embedded.stop, name="lumia-embedded-end", daemon=True)
            ending.start()
            ending.join(STOP_SECONDS)
