"""Watching over threads that can't be ended: which hang, and leaving in spite of them (DESIGN §5)."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lumia.ports import Claim, Limits

MARGIN_SECONDS = 5.0
LEFT = 70


class Watch:
    """The messages this process works on, and since when each should have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[str, float] = {}

    @contextmanager
    def over(self, claim: Claim, limits: Limits) -> Iterator[None]:
        """Watch the work on a message; its steps together may take the sum of their limits."""
        steps = claim.plan.steps[claim.step :]
        seconds = sum(step.timeout or limits.step_timeout for step in steps) + limits.batch_seconds + MARGIN_SECONDS
        name = f"{steps[0].handler} in run {claim.run_id}"
        with self._lock:
            self._until[name] = time.monotonic() + seconds
        try:
            yield
        finally:
            with self._lock:
                self._until.pop(name, None)

    def hung(self) -> list[str]:
        """Return what should have ended by now."""
        now = time.monotonic()
        with self._lock:
            return [name for name, until in self._until.items() if until < now]


def leave_after(seconds: float) -> None:
    """End this process in `seconds` whatever its threads do; what they had claimed is taken over by other workers."""

    def leave() -> None:
        logging.getLogger("lumia").error(
            "not drained after %g s: leaving; what is claimed goes to other workers", seconds
        )
        os._exit(LEFT)

    timer = threading.Timer(seconds, leave)
    timer.daemon = True
    timer.start()
