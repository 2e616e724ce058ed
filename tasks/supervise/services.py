"""The Python processes of a bot: worker, beat, gateway and Flower, with their exact command lines."""

from __future__ import annotations

import http.client
import os
import re
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from lumia.errors import SupervisorError
from tasks.supervise.heartbeats import beat_answers, worker_answers
from tasks.supervise.service import Service

POOLS = {"threads": "threads", "prefork": "processes"}
"""What a user calls a pool, and what Celery must be told: `-P prefork` is overridden by a `worker_pool` setting."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?")
_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FLOWER_MEMORY = ("--max-tasks=5000", "--max-workers=200", "--purge-offline-workers=120")


@dataclass(frozen=True)
class Place:
    """What every process of one bot needs to know. after: the servers that must be ready first."""

    base: Path
    root: Path
    redis_url: str
    database_url: str = ""
    after: tuple[str, ...] = ()

    def env(self, **more: str) -> dict[str, str]:
        """Return the environment of a child: the caller's, with the bot's place in it."""
        inherited = dict(os.environ)
        path = [str(self.base), *filter(None, inherited.get("PYTHONPATH", "").split(os.pathsep))]
        given = {
            "LUMIA_ROOT": str(self.root),
            "LUMIA_REDIS_URL": self.redis_url,
            "LUMIA_DATABASE_URL": self.database_url,
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
            "PYTHONUNBUFFERED": "1",
            "MALLOC_ARENA_MAX": inherited.get("MALLOC_ARENA_MAX", "2"),
            # Steps are executed side by side already; a recall with threads of numpy's own takes twice the CPU.
            "OPENBLAS_NUM_THREADS": inherited.get("OPENBLAS_NUM_THREADS", "1"),
            **more,
        }
        return {**inherited, **{name: value for name, value in given.items() if value}}

    def celery(self, *words: str) -> tuple[str, ...]:
        """Return a `celery -A tasks …` command line."""
        return (sys.executable, "-m", "celery", "--workdir", str(self.base), "-A", "tasks", *words)


@dataclass(frozen=True)
class WorkerOptions:
    """A worker as asked for. queues: none means all shared ones. concurrency: 0 means the configured one."""

    name: str
    queues: tuple[str, ...] = ()
    pool: str = ""
    concurrency: int = 0

    def checked(self) -> WorkerOptions:
        """Return self; raise `SupervisorError` naming the value that can't be."""
        if not _NAME.fullmatch(self.name):
            raise SupervisorError(f"worker name {self.name!r}: use 1 to 40 of a-z, 0-9 and -, not at the ends")
        for queue in self.queues:
            if not _QUEUE.fullmatch(queue):
                raise SupervisorError(
                    f"queue {queue!r}: use letters, digits, '.', '_' and '-', starting with none of these"
                )
        if self.pool not in ("", *POOLS):
            raise SupervisorError(f"pool {self.pool!r} is unknown; use {' or '.join(POOLS)}")
        if not 0 <= self.concurrency <= 1000:
            raise SupervisorError(f"concurrency {self.concurrency}: use 1 to 1000")
        return self

    def words(self) -> list[str]:
        """Return what Celery is told beyond the common options."""
        return [
            *(["-Q", ",".join(self.queues)] if self.queues else []),
            *(["-P", POOLS[self.pool]] if self.pool else []),
            *(["-c", str(self.concurrency)] if self.concurrency else []),
        ]


def worker_service(place: Place, options: WorkerOptions, *, essential: bool = False, grace: float = 30.0) -> Service:
    """Return one Celery worker; ready once one of its processes has given a sign of life."""
    common = ("worker", "--loglevel", "INFO", "-E", "-n", f"{options.name}@%h", "--without-gossip", "--without-mingle")
    return Service(
        name=options.name,
        kind="worker",
        command=place.celery(*common, *options.checked().words()),
        probe=lambda pid: worker_answers(place.redis_url, pid),
        after=place.after,
        env=place.env(),
        essential=essential,
        grace=grace,
        stage=2,
    )


def beat_service(place: Place) -> Service:
    """Return the one beat of this bot."""
    return Service(
        name="beat",
        kind="beat",
        command=place.celery("beat", "--loglevel", "INFO"),
        probe=lambda pid: beat_answers(place.redis_url, pid),
        after=place.after,
        env=place.env(),
        stage=1,
    )


def gateway_services(place: Place, host: str, port: int, count: int = 1) -> list[Service]:
    """Return the gateways that share a port; the bot is up when the first one is, and the others follow."""
    return [gateway_service(place, host, port, number, count) for number in range(1, count + 1)]


def gateway_service(place: Place, host: str, port: int, number: int = 1, count: int = 1) -> Service:
    """Return gateway `number` of so many; the variables over its configuration tell it what `--port` changed.

    Which of several answers a request is the kernel's choice, so that each is looked for by its listening socket.
    """
    shared = count > 1
    reached = "127.0.0.1" if host in ("0.0.0.0", "::", "") else host
    return Service(
        name="gateway" if number == 1 else f"gateway-{number}",
        kind="gateway",
        command=(sys.executable, "-m", "lumia.gateway"),
        probe=lambda pid: (not shared or listens(pid, port)) and http_status(reached, port, "/healthz") == 200,
        url=f"http://{f'[{reached}]' if ':' in reached else reached}:{port}/",
        after=place.after,
        env=place.env(LUMIA__GATEWAY__HOST=host, LUMIA__GATEWAY__PORT=str(port), LUMIA__GATEWAY__PROCESSES=str(count)),
        essential=number == 1,
        grace=15.0,
        stage=0,
    )


def flower_service(place: Place, port: int) -> Service:
    """Return Flower on loopback; the bot is ready without it.

    It keeps nothing, and on SIGTERM it waits for threads that wait for Redis, so it is ended at once.
    """
    return Service(
        name="flower",
        kind="flower",
        command=place.celery("flower", "--address=127.0.0.1", f"--port={port}", *_FLOWER_MEMORY),
        probe=lambda pid: http_status("127.0.0.1", port, "/healthcheck") > 0,
        url=f"http://127.0.0.1:{port}/",
        after=place.after,
        env=place.env(),
        essential=False,
        stop=signal.SIGKILL,
        stage=3,
    )


def listens(pid: int, port: int) -> bool:
    """Tell whether a process has a TCP socket that listens on `port`."""
    import psutil

    try:
        found = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port for one in found)


def http_status(host: str, port: int, path: str, timeout: float = 1.0) -> int:
    """Return the status of a GET, 0 when nobody answers."""
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()
