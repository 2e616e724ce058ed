"""Watching over threads that can't be ended: which hang, and leaving in spite of them (DESIGN §5)."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lumia.executor import StepListener
from lumia.ports import Claim, Limits
from lumia.routes import PlanStep

MARGIN_SECONDS = 5.0
HUNG_DRAIN_SECONDS = 3.0
LEFT = 70


class Watch:
    """The steps that the threads of this process are at, and when each should have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[int, tuple[str, float]] = {}

    @contextmanager
    def over(self, listener: StepListener, limits: Limits) -> Iterator[StepListener]:
        """Return a listener that watches over each step this thread executes and passes on what it hears."""
        try:
            yield _Watching(self, listener, limits)
        finally:
            self.end()

    def begin(self, name: str, seconds: float) -> None:
        """This thread begins a step that may take `seconds`."""
        with self._lock:
            self._steps[threading.get_ident()] = name, time.monotonic() + seconds + MARGIN_SECONDS

    def end(self) -> None:
        """This thread's step has ended."""
        with self._lock:
            self._steps.pop(threading.get_ident(), None)

    def hung(self) -> list[str]:
        """Return what should have ended by now."""
        now = time.monotonic()
        with self._lock:
            return [name for name, until in self._steps.values() if until < now]


class _Watching(StepListener):
    def __init__(self, watch: Watch, listener: StepListener, limits: Limits) -> None:
        self._watch, self._listener, self._limits = watch, listener, limits

    def started(self, claim: Claim, step: PlanStep) -> None:
        self._watch.begin(f"{step.handler} in run {claim.run_id}", step.timeout or self._limits.step_timeout)
        self._listener.started(claim, step)

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        self._watch.end()
        self._listener.ended(claim, step, outcome, error, seconds)

    def goes_on(self) -> bool:
        return self._listener.goes_on()


def leave_to_be_replaced() -> None:
    """End this process because its threads hang; its drain is short, since it would wait for just those threads."""
    leave_after(HUNG_DRAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


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
