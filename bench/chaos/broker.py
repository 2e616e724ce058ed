"""The campaign's Valkey: killed, restarted on the same data, frozen, paused, its connections cut."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from tasks.supervise.ports import free_port
from tests.support import servers


class Broker:
    """One Valkey with its data in a folder. outages: (begin, end) of the times it did not answer."""

    def __init__(self, folder: Path, fsync: str) -> None:
        self._folder = folder
        self._config = f"appendfsync {fsync}\n"
        self._stack = ExitStack()
        self._frozen = False
        self.port = free_port()
        self.url = ""
        self.kills: list[float] = []
        self.outages: list[tuple[float, float]] = []
        self.start()

    @property
    def redis(self) -> Any:
        """Return a new connection."""
        return Redis.from_url(self.url, socket_timeout=10)

    def start(self) -> None:
        """Start it on the data there is, and wait until it answers."""
        server = self._stack.enter_context(servers.valkey(self._folder, port=self.port, config=self._config))
        self.url, self.pid = server.url, server.pid

    def kill(self, away: float) -> None:
        """SIGKILL, and start it again after `away` seconds."""
        self.kills.append(time.monotonic())
        with self._away():
            os.kill(self.pid, signal.SIGKILL)
            self._stack.close()
            time.sleep(away)
            self.start()

    def restart(self, away: float) -> None:
        """SIGTERM, and start it again after `away` seconds."""
        with self._away():
            self._stack.close()
            time.sleep(away)
            self.start()

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and after `seconds` SIGCONT."""
        with self._away():
            os.kill(self.pid, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.kill(self.pid, signal.SIGCONT)

    def pause(self, seconds: float) -> None:
        """CLIENT PAUSE: connections stay, nothing is answered."""
        with self._away():
            with self.redis as redis:
                redis.execute_command("CLIENT", "PAUSE", int(seconds * 1000), "ALL")
            time.sleep(seconds)

    @contextmanager
    def _away(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.outages.append((began, time.monotonic()))

    def cut(self) -> int:
        """CLIENT KILL: drop every connection; returns how many."""
        with self.redis as redis:
            return sum(int(redis.execute_command("CLIENT", "KILL", "TYPE", kind)) for kind in ("normal", "pubsub"))

    def close(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        with suppress(RedisError):
            self._stack.close()
