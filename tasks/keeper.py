"""What every executing process does beside executing: heartbeat, delayed runs, recovery, fresh routes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from lumia.errors import LumiaError, TransportError
from lumia.runtime import Runtime
from tasks.queues import lists
from tasks.transport import RedisTransport
from tasks.watch import Watch

BEAT_SECONDS = 1.0
TTL_SECONDS = 5.0
GRACE_SECONDS = 2.0
REAP_SECONDS = 1.0
MOVE_SECONDS = 0.25
BLOB_SECONDS = 3600.0


class Keeper:
    """One thread per executing process."""

    def __init__(self, bot: Runtime, transport: RedisTransport, on_routes: Callable[[], None], watch: Watch) -> None:
        self._bot = bot
        self._transport = transport
        self._on_routes = on_routes
        self._watch = watch
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lumia-keeper", daemon=True)
        self._due: dict[str, float] = {}

    def start(self) -> None:
        """Send the first heartbeat and begin."""
        self.beat()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and sign off, so that nobody waits for this process."""
        self._stop.set()
        self._thread.join(timeout=5)
        self._transport.redis.zrem(f"{self._transport.prefix}workers", self._transport.worker)

    def _run(self) -> None:
        with self._bot.activated():
            while not self._stop.wait(self._turn()):
                pass

    def _turn(self) -> float:
        try:
            self._every("beat", BEAT_SECONDS, self.beat)
            self._every("reap", REAP_SECONDS, self.reap)
            self._every("routes", BEAT_SECONDS, self._on_routes)
            self._every("hung", REAP_SECONDS, self._replace_if_hung)
            self._every("blobs", BLOB_SECONDS, self._collect)
            return self.move()
        except LumiaError as error:
            self._bot.log.warning("keeper: %s", error)
        except Exception:
            self._bot.log.exception("keeper: a turn failed; the next one tries again")
        return BEAT_SECONDS

    def _every(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        now = time.monotonic()
        if now >= self._due.get(name, 0.0):
            self._due[name] = now + seconds
            call()

    def beat(self) -> None:
        """Tell the others that this process lives."""
        self._transport.call("heartbeat", self._transport.worker, int(TTL_SECONDS * 1000 / 2))

    def move(self) -> float:
        """Push what is due; returns the seconds to wait for the next look."""
        left = int(self._transport.call("move"))
        return MOVE_SECONDS if left < 0 else min(MOVE_SECONDS, max(0.005, left / 1000))

    def reap(self) -> None:
        """Take back what dead processes, hung steps and lost messages left behind."""
        limits = self._transport.limits
        try:
            names = lists(self._bot.table.queues)
        except TransportError:
            names = []
        keep = int(limits.keep_runs * 1000)
        found = self._transport.call(
            "reap", int(TTL_SECONDS * 1000), int(GRACE_SECONDS * 1000), keep, limits.journal_entries, *names
        )
        for told in found[3:]:
            self._bot.log.warning("requeued: run %s", told.decode())

    def _replace_if_hung(self) -> None:
        hung = self._watch.hung()
        if len(hung) * 2 >= self._transport.limits.concurrency and not self._bot.draining:
            self._bot.log.error("%d threads hang (%s): this worker leaves to be replaced", len(hung), ", ".join(hung))
            os.kill(os.getpid(), signal.SIGTERM)

    def _collect(self) -> None:
        if self._bot.blobs is not None:
            self._bot.blobs.collect()
