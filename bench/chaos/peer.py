"""Plain Celery under the same faults: what it does, without what it does not promise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.chaos.broker import Broker
from bench.chaos.crew import Crew, Member
from bench.chaos.load import NotAcceptedError
from bench.chaos.verdict import Accepted, Evidence
from lumia.paths import base


class Peer:
    """Three prefork workers of a Celery app whose chain has the same stages."""

    name = "celery"

    def __init__(self, folder: Path, *, workers: int, threads: int, fsync: str) -> None:
        self.folder = folder
        self.workers, self.threads = workers, threads
        self.broker = Broker(folder / "valkey", fsync)
        os.environ["CHAOS_PEER_URL"] = self.broker.url
        self.crew = Crew(folder / "logs", {**os.environ, "PYTHONUNBUFFERED": "1"})
        self.redis: Any = self.broker.redis
        self.expected_dead: set[str] = set()

    def start(self) -> None:
        """Start the workers and wait until they answer."""
        for number in range(self.workers):
            self.start_worker(f"w{number}")
        if not self.until(lambda: all(map(self.serves, self.crew.of("worker"))), 60.0):
            raise RuntimeError(f"Celery's workers are not ready; see {self.folder / 'logs'}")

    def start_worker(self, name: str, role: str = "worker") -> Member:
        """Start one worker."""
        quiet = ["--loglevel", "INFO", "-E", "--without-mingle", "--without-gossip", "-n", f"{name}@%h"]
        words = ["--workdir", str(base()), "-A", "bench.chaos.peer_app", "worker", *quiet, "-c", str(self.threads)]
        return self.crew.start(name, role, [sys.executable, "-m", "celery", *words])

    def serves(self, member: Member) -> bool:
        """Tell whether a worker is ready."""
        return " ready." in self.crew.log_of(member)

    def until(self, reached: Callable[[], Any], seconds: float, what: str = "") -> bool:
        """Wait for a condition; see `Crew.until`."""
        return self.crew.until(reached, seconds, what)

    def long_runs(self, count: int, seconds: float, salt: int) -> list[str]:
        """Start nothing: a step longer than the visibility timeout would be run again and again."""
        return []

    def ended(self, runs: list[str]) -> bool:
        """Tell that nothing is waited for."""
        return True

    def apart(self, group: str) -> bool:
        """Tell that all groups go the same way."""
        return False

    def send(self, group: str, n: int) -> str:
        """Publish one message."""
        from bench.chaos.peer_app import begin

        try:
            return begin(group, n)
        except Exception as error:  # kombu's own, redis-py's, OSError: whatever it is, nobody knows
            raise NotAcceptedError(str(error)) from error

    def done(self) -> int:
        """Return how many messages came out."""
        return int(self.redis.get("count") or 0)

    def evidence(self, accepted: list[Accepted], unsure: set[str], groups: list[str]) -> Evidence:
        """Return what the verdict is made of."""
        done = {group: [int(n) for n in self.redis.lrange(f"done:{group}", 0, -1)] for group in groups}
        return Evidence(accepted, frozenset(unsure), done=done)

    def unfinished(self, names: Sequence[str], accepted: list[Accepted]) -> frozenset[str]:
        """Return nothing: Celery can't tell a message that is lost from one that is on its way."""
        return frozenset()

    def before_kills(self, accepted: list[Accepted]) -> int:
        """Return 0: the peer's broker is not killed."""
        return 0

    def close(self) -> None:
        """End everything this has started."""
        self.crew.close()
        self.redis.close()
        self.broker.close()
