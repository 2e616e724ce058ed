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
        self._lock, self._making = threading.Lock(), threading.Lock()
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
        """Serve a queue, which may be done several times over: it is served until the last one has left.

        The first one of all takes as long as loading the consumer; `leave` never waits for that.
        """
        with self._lock:
            self._times[queue] += 1
        try:
            self._make()
        except BaseException:
            self.leave(queue)
            raise
        with self._lock:
            if self._embedded is not None and not self._draining and self._times[queue] > 0:
                self._embedded.add(queue)

    def _make(self) -> None:
        with self._making:
            if self._embedded is None and not self._draining:
                made = self._bot.transport.embed(self._bot)
                with self._lock:
                    self._embedded = made

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
        self._draining = True
        with self._making, self._lock:
            embedded, self._embedded = self._embedded, None
        if embedded is not None:
            # A broker that hangs must not keep the process from its end.
            ending = threading.Thread(target=embedded.stop, name="lumia-embedded-end", daemon=True)
            ending.start()
            ending.join(STOP_SECONDS)
