"""The threads pool of Lumia's workers."""

from __future__ import annotations

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

    def register_with_event_loop(self, loop: Any) -> None:
        """Remember the event loop to be woken."""
        self._hub = loop

    def on_apply(self, *args: Any, **kwargs: Any) -> Any:
        """Run a task in a thread."""
        result = super().on_apply(*args, **kwargs)
        hub = self._hub
        if hub is not None:
            result.f.add_done_callback(lambda _: hub.call_soon(_nothing))
        return result
