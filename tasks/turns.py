"""Turns: the threads of a process execute quick steps one after the other instead of fighting for the interpreter.

Threads are there because model calls wait. Steps that do not wait gain nothing from them: each answer of a script wakes
one more thread that wants the interpreter lock, and a process with eight busy threads spends half as much again on a
message as one with a single thread. So a thread takes the turn for the quick steps of a message, and leaves it before
a step that is known to take long. Nobody waits for a turn that doesn't move: a thread that finds the one in front at
the same step for a few milliseconds goes ahead without.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lumia.executor import StepListener
from lumia.ports import Claim
from lumia.routes import PlanStep

PAUSE_SECONDS = 0.005
"""How long the one in front may stay at a step before the others stop waiting for it."""
LONGEST_SECONDS = 0.5
"""How long a message waits for a turn at most, however quickly it moves."""
PATIENCE_SECONDS = 0.05
"""How long a message waits before the process that has the turn takes no further run into its batch."""
SLOW_SECONDS = 0.003
"""A handler that takes longer is executed without the turn."""
QUICK_SECONDS = 0.001
"""The commit before one that takes less may wait for it."""


class Turns:
    """The turn of one process. A handler's usual duration is learned: the newest one counts a quarter."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._front = threading.Lock()
        self._moves = 0
        self._since = 0.0
        self._usual: dict[str, float] = {}
        self.freed: Callable[[], None] = lambda: None
        """Called by a thread that need not wait any longer."""

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Take the turn for a message; at the end it is given back."""
        mine = Share(self)
        try:
            yield mine
        finally:
            mine.leave()

    def take(self) -> bool:
        """Wait for the turn; False when it is better to go on without it."""
        if self._turn.acquire(blocking=False):
            return True
        until = time.monotonic() + LONGEST_SECONDS
        if not self._front.acquire(timeout=LONGEST_SECONDS):
            return False
        self._since = time.monotonic()
        try:
            while time.monotonic() < until:
                seen = self._moves
                if self._turn.acquire(timeout=PAUSE_SECONDS):
                    return True
                if self._moves == seen:
                    return False
            return False
        finally:
            self._front.release()
            self.freed()

    @property
    def awaited(self) -> bool:
        """Whether a thread waits for the turn."""
        return self._front.locked()

    @property
    def overdue(self) -> bool:
        """Whether a thread has waited so long that a batch should end."""
        return self._front.locked() and time.monotonic() - self._since > PATIENCE_SECONDS

    def leave(self) -> None:
        """Give the turn to the next thread."""
        self._turn.release()

    def move(self) -> None:
        """Tell the waiting threads that whoever has the turn gets on."""
        self._moves += 1

    def is_slow(self, handler: str) -> bool:
        """Tell whether a handler usually takes long."""
        return self._usual.get(handler, 0.0) > SLOW_SECONDS

    def is_quick(self, handler: str) -> bool:
        """Tell whether a handler is known to do next to nothing."""
        return self._usual.get(handler, 1.0) < QUICK_SECONDS

    def learn(self, handler: str, seconds: float) -> None:
        """Remember how long a handler took."""
        usual = self._usual.get(handler)
        self._usual[handler] = seconds if usual is None else 0.75 * usual + 0.25 * seconds


class Share(StepListener):
    """One message's share of the turn, which it leaves where a step takes long."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._listener = StepListener()
        self._has = turns.take()

    def over(self, listener: StepListener) -> StepListener:
        """Return the listener of the message's steps, which tells `listener` all it hears."""
        self._listener = listener
        return self

    def leave(self) -> None:
        """Give the turn back, if this message has it."""
        if self._has:
            self._has = False
            self._turns.leave()

    def started(self, claim: Claim, step: PlanStep) -> None:
        self._turns.move()
        if self._turns.is_slow(step.handler):
            self.leave()
        elif not self._has:
            self._has = self._turns.take()
        self._listener.started(claim, step)

    def ended(self, claim: Claim, step: PlanStep, outcome: str, error: str, seconds: float) -> None:
        self._turns.learn(step.handler, seconds)
        self._listener.ended(claim, step, outcome, error, seconds)

    def goes_on(self) -> bool:
        return self._listener.goes_on() and not (self._has and self._turns.overdue)
