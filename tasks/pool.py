"""The threads pool of Lumia's workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery.concurrency import thread


def _nothing() -> None:
    """Woken up: the hub looks again whether it may take a message."""


class TaskPool(thread.TaskPool):
    """Celery's threads pool, with a finished thread waking the event loop.

    With `worker_disable_prefetch` a saturated worker stops asking for messages; without the wake-up it would ask again
    only when something else happens on its connections.
    """

    _hub: Any = None
    has_room: Callable[[], bool] = staticmethod(lambda: True)
    """Whether a message that is taken now would be executed at once; set by the worker."""

    @property
    def num_processes(self) -> int:
        """Return how many messages may be taken: with `worker_disable_prefetch` Celery asks before each one."""
        return int(self.limit) if self.has_room() else 0

    def register_with_event_loop(self, loop: Any) -> None:
        """Remember the event loop to be woken."""
        self._hub = loop

    def on_apply(self, *args: Any, **kwargs: Any) -> Any:
        """Run a task in a thread."""
        result = super().on_apply(*args, **kwargs)
        result.f.add_done_callback(lambda _: self.wake())
        return result

    def wake(self) -> None:
        """Let the event loop look whether a message may be taken."""
        if self._hub is not None:
            self._hub.call_soon(_nothing)
