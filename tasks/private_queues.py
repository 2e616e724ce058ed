"""What of the Redis transport is about queues that only one process serves, leases and alarms."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, cast

from redis import ConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from lumia.errors import BackendUnavailableError
from lumia.marks import PRIVATE_PREFIX
from lumia.ports import Embedded, QueueInfo
from tasks.keys import SERVING
from tasks.lists import SEPARATOR, lists
from tasks.scripts import source

if TYPE_CHECKING:
    from lumia.runtime import Runtime
    from tasks.transport import RedisTransport

FRESH_SECONDS = 5.0
"""A process tells every second what it serves; one that has not for so long doesn't."""
FORGET_SECONDS = 60.0
"""After so long a process that is silent is forgotten."""
TELL_SECONDS = 2.0
"""How often a worker tells which shared queues it serves; only `lumia doctor` wants to know."""
BRISK_SECONDS = 1.0
"""How long a lease waits for an answer: who can't renew it has to know before its time is over."""


class QueuePort:
    """The part of `RedisTransport` for queues that belong to a process, which it is mixed into."""

    redis: Redis
    prefix: str
    worker: str
    url: str
    call: Callable[..., Any]
    queues: Callable[[], list[str]]
    _asked: Callable[..., Any]
    _key: Callable[[str, str], str]

    def __init__(self) -> None:
        self._brisk: Any = None
        self._making = threading.Lock()
        self._told = -TELL_SECONDS

    def backlog(self, prefix: str = "") -> list[QueueInfo]:
        """Return what waits in the queues whose name begins with `prefix`."""
        names = [name for name in self.queues() if name.startswith(prefix)]
        served = self._served() if any(name.startswith(PRIVATE_PREFIX) for name in names) else {}
        with self.redis.pipeline(transaction=False) as batch:
            for list_ in lists(names):
                batch.zcard(self._key("queued", list_))
                batch.zrange(self._key("queued", list_), 0, 0)
            counted: list[Any] = batch.execute()
        ages = self._ages([first[0] for first in counted[1::2] if first])
        rows = zip(lists(names), counted[::2], counted[1::2], strict=True)
        sizes: dict[str, list[tuple[int, float]]] = {}
        for list_, size, first in rows:
            sizes.setdefault(list_.partition(SEPARATOR)[0], []).append((size, ages[first[0]] if first else 0.0))
        return [
            QueueInfo(name, sum(n for n, _ in of), max(age for _, age in of), tuple(sorted(served.get(name, ()))))
            for name, of in sizes.items()
        ]

    def _ages(self, members: list[bytes]) -> dict[bytes, float]:
        """Return how many seconds ago messages, `run.step.sequence`, were pushed."""
        seconds, micros = self._asked("time")
        now = seconds + micros / 1e6
        runs = [member.decode().rsplit(".", 2)[0] for member in members]
        pushed = [self._asked("hget", self._key("r", run), "Q") for run in runs]
        return {one: round(now - int(at or now * 1000) / 1000, 3) for one, at in zip(members, pushed, strict=True)}

    def _served(self) -> dict[str, list[str]]:
        seconds, micros = self._asked("time")
        fresh = seconds + micros / 1e6 - FRESH_SECONDS
        found: dict[str, list[str]] = {}
        for member in self._asked("zrangebyscore", self.prefix + SERVING, fresh, "+inf"):
            worker, _, queue = member.decode().partition(" ")
            found.setdefault(queue, []).append(worker)
        return found

    def tell_served(self, queues: Collection[str], gone: Collection[str] = ()) -> None:
        """Let others know which private queues this process takes messages from, and which no more."""
        key = self.prefix + SERVING
        seconds, micros = self._asked("time")
        now = seconds + micros / 1e6
        with self.redis.pipeline(transaction=False) as batch:
            if queues:
                batch.sadd(f"{self.prefix}queues", *queues)
                batch.zadd(key, {f"{self.worker} {queue}": now for queue in queues})
            if gone:
                batch.zrem(key, *(f"{self.worker} {queue}" for queue in gone))
            batch.zremrangebyscore(key, "-inf", now - FORGET_SECONDS)
            batch.execute()

    def tell_shared(self, name: str, queues: Collection[str]) -> None:
        """Let others know, now and then, which shared queues the process `name` takes messages from."""
        if queues and time.monotonic() >= self._told + TELL_SECONDS:
            self._told = time.monotonic()
            seconds, micros = self._asked("time")
            now, key = seconds + micros / 1e6, self.prefix + SERVING
            self._asked("zadd", key, {f"{name} {queue}": now for queue in queues})
            self._asked("zremrangebyscore", key, "-inf", now - FORGET_SECONDS)

    def embed(self, bot: Runtime) -> Embedded:
        """Return a Celery worker in threads of this process."""
        from tasks.embedded import EmbeddedWorker  # only who serves such queues pays for it

        return EmbeddedWorker(bot, cast("RedisTransport", self), self.url)

    def lease(self, name: str, holder: str, seconds: float) -> int:
        """Take or keep a lease for `seconds`, or give it back with 0; returns its fencing number, 0 without it.

        It has a connection of its own, which waits briefly and tries once more at most.
        """
        with self._making:
            if self._brisk is None:
                self._brisk = brisk(self.redis, BRISK_SECONDS).register_script(source("own"))
        try:
            return int(self._brisk(args=[self.prefix, name, holder, int(seconds * 1000)]))
        except (RedisError, OSError) as error:
            raise BackendUnavailableError(f"Redis does not answer, so nobody can hold {name!r}: {error}") from error

    def alarm(self, name: str, what: str, fix: str) -> None:
        """Raise an alarm, or end it where `what` is ""."""
        self.call("alarm", name, what, fix)

    def _close_brisk(self) -> None:
        if self._brisk is not None:
            self._brisk.registered_client.connection_pool.disconnect()


def brisk(redis: Redis, seconds: float) -> Redis:
    """Return a client of the same server that waits at most `seconds` for an answer, and asks twice at most."""
    pool = redis.connection_pool
    limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": Retry(NoBackoff(), 1)}
    given: Any = {**pool.connection_kwargs, **limits}
    return Redis(connection_pool=ConnectionPool(connection_class=pool.connection_class, **given))
