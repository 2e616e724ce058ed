"""The messages: at a steady rate or as fast as a bounded backlog allows, each accepted once, retried until it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.chaos.verdict import Accepted

SHARDS = 4
RETRY_SECONDS = 0.1
IDLE, STEADY, SATURATED = "idle", "steady", "saturated"

Send = Callable[[str, int], str]
"""Accepts message `n` of a group and returns its run; raises `NotAcceptedError` when that failed or is unknown."""


class NotAcceptedError(Exception):
    """A message was not accepted, or nobody knows whether it was."""


@dataclass
class Load:
    """Sends messages of `groups` from a few threads, each group's in order by one of them.

    send: how a message is accepted; done: how many have been committed so far. backlog: messages that may be under way.
    sure: whether sending a message again, after an outcome that is unknown, can't make a second one. apart: groups with
    a thread of their own, so that their way in, when it is closed, holds up no others.
    """

    groups: Sequence[str]
    send: Send
    done: Callable[[], int]
    rate: float
    backlog: int
    sure: bool = True
    apart: Callable[[str], bool] = lambda group: False
    mode: str = IDLE
    accepted: list[Accepted] = field(default_factory=list)
    unsure: set[str] = field(default_factory=set)
    retries: int = 0
    _known: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Start the threads; nothing is sent before `mode` says so."""
        others = [group for group in self.groups if not self.apart(group)]
        shards = [others[number::SHARDS] for number in range(SHARDS)]
        shards.append([group for group in self.groups if self.apart(group)])
        self._threads = [threading.Thread(target=self._run, args=(shard,), daemon=True) for shard in shards if shard]
        self._threads.append(threading.Thread(target=self._look, daemon=True))
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Send no more; messages whose acceptance is unknown by now stay unsure."""
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=15)

    @property
    def under_way(self) -> int:
        """Return about how many messages were accepted and are not committed."""
        return len(self.accepted) - self._known

    def _look(self) -> None:
        while not self._ended.wait(0.2):
            try:
                self._known = self.done()
            except Exception:  # the broker is away: the last number stands
                self._ended.wait(0.3)

    def _run(self, groups: list[str]) -> None:
        share = self.rate * len(groups) / len(self.groups)
        due, numbers, turn = time.monotonic(), dict.fromkeys(groups, 0), 0
        while not self._ended.is_set():
            waiting = due - time.monotonic()
            if self.mode == IDLE or self.under_way >= self.backlog:
                self._ended.wait(0.01)
                due = time.monotonic()
                continue
            if self.mode == STEADY and waiting > 0:
                self._ended.wait(waiting)
            group = groups[turn % len(groups)]
            self._accept(group, numbers[group])
            numbers[group] += 1
            turn, due = turn + 1, max(due + 1 / share, time.monotonic() - 5.0)

    def _accept(self, group: str, n: int) -> None:
        name = f"{group}/{n}"
        while True:
            try:
                run_id = self.send(group, n)
            except NotAcceptedError:
                self.retries += 1
                self.unsure.add(name)
                if not self.sure or self._ended.wait(RETRY_SECONDS):
                    return
            else:
                self.accepted.append(Accepted(group, n, time.monotonic(), run_id))
                self.unsure.discard(name)
                return
