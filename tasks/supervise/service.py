"""What one supervised process is: how to start it, know it is ready, and end it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tasks.supervise.account import Account


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Service:
    """One process of `lumia up`.

    command: what runs, exactly. probe: given the pid, tells whether it answers; called from a thread and back within
    seconds. after: services that must have been ready once before this one starts. prepare: called before each
    start. essential: `up` fails, and the bot isn't ready, without it. stop: the signal that drains it; grace: seconds
    until SIGKILL. orphan: the signal the kernel sends when the supervisor dies. stage: services end in ascending order.
    """

    name: str
    kind: str
    command: tuple[str, ...]
    probe: Callable[[int], bool]
    url: str | None = None
    after: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    prepare: Callable[[], None] = _nothing
    essential: bool = True
    start_timeout: float = 60.0
    stop: signal.Signals = signal.SIGTERM
    grace: float = 10.0
    orphan: signal.Signals = signal.SIGKILL
    stage: int = 0

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues a worker was given; none means all shared ones."""
        return queues_of(self.command)


def queues_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the queues that a worker's command line names; none means all shared ones."""
    return tuple(words[words.index("-Q") + 1].split(",")) if "-Q" in words else ()
