"""What every executing process does beside executing: heartbeat, delayed runs, recovery, fresh routes."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from redis.exceptions import RedisError

from lumia.dead import MAX_LETTERS, DeadFilter
from lumia.errors import LumiaError
from lumia.exports import digests
from lumia.runtime import Runtime
from tasks.keys import WORKERS
from tasks.lists import lists
from tasks.transport import RedisTransport
from tasks.watch import Watch, leave_to_be_replaced

BEAT_SECONDS = 1.0
TTL_SECONDS = 4.0
GRACE_SECONDS = 2.0
REAP_SECONDS = 1.0
LEASE_SECONDS = 0.9
"""Of all processes about one a second looks for what was lost; it ends before the next look is due."""
LAST_LOOK_SECONDS = 0.3
"""How long a process that ends waits for what may still be on its way from the broker to another one."""
MOVE_SECONDS = 0.25
WAITING_SECONDS = 0.1
"""Commits of quick steps wait no longer than that, or until the keeper's next turn, for a step that turns out slow."""
AGE_SECONDS = 0.25
AGED_SHARE = 4
"""Messages that may go ahead of more urgent ones at a time in each queue: a turn of every keeper lets in so many."""
BLOB_SECONDS = 3600.0


def reap(transport: RedisTransport, log: logging.Logger, grace: float) -> None:
    """Take back what was lost; a message counts as vanished after `grace` seconds."""
    limits = transport.limits
    found = transport.call(
        "reap", int(TTL_SECONDS * 1000), int(grace * 1000), int(limits.keep_runs * 1000), limits.journal_bytes,
        *lists(transport.queues()),
    )  # fmt: skip
    for told in found[3:]:
        log.warning("requeued: run %s", told.decode())


def look_once_more(transport: RedisTransport, log: logging.Logger) -> None:
    """Push what the broker gave this ending process and it never began, so that nobody waits for the reaper's grace."""
    with suppress(RedisError, LumiaError):
        reap(transport, log, LAST_LOOK_SECONDS)
        time.sleep(LAST_LOOK_SECONDS + 0.05)
        reap(transport, log, LAST_LOOK_SECONDS)


class Keeper:
    """One thread per executing process."""

    def __init__(
        self, bot: Runtime, transport: RedisTransport, on_routes: Callable[[], None], watch: Watch, slots: int
    ) -> None:
        self._bot = bot
        self._slots = slots
        self._transport = transport
        self._on_routes = on_routes
        self._watch = watch
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lumia-keeper", daemon=True)
        self._due: dict[str, float] = {}
        self._left = MOVE_SECONDS
        self._away = 0.0

    def start(self) -> None:
        """Send the first heartbeat and begin."""
        self.beat()
        self._thread.start()

    def stop(self) -> None:
        """End the thread and sign off, so that nobody waits for this process."""
        self._stop.set()
        self._thread.join(timeout=5)
        with suppress(RedisError):
            self._transport.redis.zrem(self._transport.prefix + WORKERS, self._transport.worker)

    def _run(self) -> None:
        with self._bot.activated():
            while not self._stop.wait(self._turn()):
                pass

    def _turn(self) -> float:
        self._every("beat", BEAT_SECONDS, self.beat)
        self._every("reap", REAP_SECONDS, self.reap)
        self._every("age", AGE_SECONDS, self.age)
        self._every("routes", BEAT_SECONDS, self._on_routes)
        self._every("hung", REAP_SECONDS, self._replace_if_hung)
        self._every("blobs", BLOB_SECONDS, self._collect)
        self._every("waiting", WAITING_SECONDS, self.send_waiting)
        self._left = BEAT_SECONDS
        self._every("move", 0.0, self.move)
        return self._left

    def _every(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Do one of the duties when it is due; that it fails keeps none of the others from being done."""
        now = time.monotonic()
        if now < self._due.get(name, 0.0):
            return
        self._due[name] = now + seconds
        try:
            call()
        except LumiaError as error:
            self._away = time.monotonic()
            self._bot.log.warning("keeper, %s: %s", name, error)
        except Exception:
            self._bot.log.exception("keeper, %s failed; the next turn tries again", name)

    def beat(self) -> None:
        """Tell the others that this process lives."""
        self._transport.call("heartbeat", self._transport.worker, int(TTL_SECONDS * 1000 / 2))

    def move(self) -> None:
        """Push what is due, and note when to look again."""
        left = int(self._transport.call("move"))
        self._left = MOVE_SECONDS if left < 0 else min(MOVE_SECONDS, max(0.005, left / 1000))

    def send_waiting(self) -> None:
        """Send the commits that wait for a step that takes longer than it used to."""
        self._transport.send_waiting(self._transport.groups.overdue(WAITING_SECONDS))

    def age(self) -> None:
        """Let messages that have waited too long go ahead of more urgent ones."""
        ageing = self._transport.limits.ageing
        if ageing:
            self._transport.call("age", int(ageing * 1000), AGED_SHARE, *self._transport.queues())

    def reap(self) -> None:
        """Take back what dead processes, hung steps and lost messages left behind, unless another process just did."""
        transport, lease = self._transport, int(LEASE_SECONDS * 1000)
        if transport.redis.set(f"{transport.prefix}reaper", transport.worker, nx=True, px=lease):
            reap(transport, self._bot.log, GRACE_SECONDS)

    def _replace_if_hung(self) -> None:
        hung = self._watch.hung()
        back_for = time.monotonic() - self._away  # while Redis was away, steps waited for their commits
        if hung and len(hung) * 2 >= self._slots and back_for > TTL_SECONDS and not self._bot.draining:
            self._bot.log.error("%d threads hang (%s): this worker leaves to be replaced", len(hung), ", ".join(hung))
            leave_to_be_replaced()

    def _collect(self) -> None:
        """Collect blobs, unless another process of this machine just did."""
        transport = self._transport
        machine = transport.worker.partition(":")[0]
        lease = f"{transport.prefix}blobs:{machine}"
        if transport.redis.set(lease, transport.worker, nx=True, px=int(BLOB_SECONDS * 900)):
            # in a thread of its own: a slow disk must not hold up the heartbeat
            threading.Thread(target=self.collect, name="lumia-blobs", daemon=True).start()

    def collect(self) -> None:
        """Remove the blobs that nobody has used for long, but for those that dead letters refer to."""
        try:
            if self._bot.blobs is not None:
                self._bot.blobs.collect(held=self._held)
        except (LumiaError, OSError, RedisError) as error:
            self._bot.log.warning("blobs are not collected this time: %s", error)

    def _held(self) -> set[str]:
        letters = self._transport.dead(DeadFilter(limit=MAX_LETTERS))
        return set().union(*(digests(letter.box) for letter in letters))
