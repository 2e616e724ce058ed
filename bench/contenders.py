"""Who is compared: commands, settings and, beside every figure, what each one promises."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import bot as bots
from bench import venvs

WORKERS = 2
THREADS = 8
Environment = dict[str, str]


@dataclass(frozen=True)
class Guarantee:
    """What holds when a worker gets SIGKILL, what may run twice, and what of the order is kept: one line each."""

    killed: str
    duplicates: str
    order: str


@dataclass(frozen=True)
class Contender:
    """One program of four stages.

    peer: the environment it runs in, "" for this one. module: its load program. workers: the worker commands behind
    the interpreter. done: the key that counts messages. taken: whether a worker has begun with `total` that waited.
    ended: the channel that tells ends. events: which task events it sends. settings: what differs from its defaults.
    slow: it does a few hundred messages a second, so it gets fewer.
    """

    name: str
    title: str
    peer: str
    module: str
    workers: tuple[tuple[str, ...], ...]
    done: str
    ended: str
    taken: Callable[[Any, int], bool]
    guarantee: Guarantee
    events: str
    settings: tuple[str, ...]
    packages: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)
    bot: str | None = None
    slow: bool = False

    def python(self) -> str:
        """Return the interpreter it runs with; raises `PeerMissing`."""
        return venvs.python_of(self.peer) if self.peer else sys.executable

    def environment(self, folder: Path, url: str) -> Environment:
        """Return its environment variables, and make the bot root it needs, if any, in `folder`."""
        env = {**os.environ, **self.variables, "BENCH_REDIS_URL": url}
        if self.bot is not None:
            env |= {"LUMIA_ROOT": str(bots.make_root(folder / "bot", self.bot)), "LUMIA_REDIS_URL": url}
        return env

    def load(self, *arguments: str) -> list[str]:
        """Return the command of its load program."""
        return [self.python(), "-m", self.module, *arguments]

    def commands(self) -> list[list[str]]:
        """Return the commands of its workers."""
        return [[self.python(), "-m", *command] for command in self.workers]


_LUMIA = Guarantee(
    "nothing lost: claims die with the worker's heartbeat, the step is taken over",
    "no step is committed twice; a call to the outside world may be repeated, unless it is an effect",
    "strict within a lane",
)
_CELERY = Guarantee(
    "a message popped but not yet recorded is lost (one per kill of an idle-handed worker, measured); "
    "others come back after the visibility timeout, 1 h by default",
    "yes: the next stage is sent before the acknowledgement, and a task longer than the visibility timeout runs again",
    "none",
)
_DRAMATIQ = Guarantee(
    "at least once: taken messages are recorded by a script, back 60 s after the dead worker's last heartbeat",
    "yes: the next stage is sent before the acknowledgement",
    "none",
)
_TASKIQ = Guarantee(
    "at least once: streams, reclaimed after 10 min idle (taskiq-redis#131, #130: recovery can stay blocked)",
    "yes: the next stage is sent before the acknowledgement, and a task longer than 10 min runs again",
    "none",
)
_HUEY = Guarantee("what the worker was executing is lost (huey#733)", "no: a message is popped once", "none")

_PACKAGES = ("celery", "kombu", "redis", "hiredis")


def _lumia(name: str, title: str, fused: bool) -> Contender:
    settings = f"fuse = {str(fused).lower()}\nbatch = {64 if fused else 1}"
    commands = tuple(_celery("tasks", f"w{n}", "-c", str(THREADS)) for n in range(WORKERS))
    shape = (f"{WORKERS} workers × {THREADS} threads", *settings.split("\n"), f"{bots.LANES} lanes")
    return Contender(
        name, title, "", "bench.peers.lumia_app", commands,
        bots.DONE.decode(), "lumia:done", lambda redis, total: bots.taken(redis), _LUMIA,
        "-E: received, started, succeeded of every step, fused or not",
        shape, _PACKAGES, bot=settings, slow=not fused,
    )  # fmt: skip


def _celery(app: str, name: str, *options: str) -> tuple[str, ...]:
    quiet = ("--loglevel", "WARNING", "--without-mingle", "--without-gossip", "-E")
    return ("celery", "-A", app, "worker", *quiet, "-n", f"{name}@%h", *options)


def _celery_peer(name: str, title: str, pool: str, count: int, concurrency: int, style: str = "chain") -> Contender:
    options = ("-P", pool, "-c", str(concurrency))
    shape = f"{count} worker{'s' * (count > 1)}, pool {pool}, concurrency {concurrency}"
    return Contender(
        name, title, "celery", "bench.peers.celery_app",
        tuple(_celery("bench.peers.celery_app", f"c{n}", *options) for n in range(count)),
        "bench:done", "bench:ended", lambda redis, total: redis.llen("bench") < total, _CELERY,
        "-E: sent by every worker",
        (shape, "task_acks_late, task_reject_on_worker_lost, task_ignore_result", "worker_prefetch_multiplier = 1",
         "--without-mingle --without-gossip"),
        _PACKAGES, {"BENCH_STYLE": style}, slow=True,
    )  # fmt: skip


def _other(
    name: str, title: str, commands: tuple[tuple[str, ...], ...], taken: Callable[[Any, int], bool],
    guarantee: Guarantee, events: str, settings: tuple[str, ...], packages: tuple[str, ...],
) -> Contender:  # fmt: skip
    return Contender(
        name, title, name, f"bench.peers.{name}_app", commands, "bench:done", "bench:ended", taken, guarantee, events,
        settings, packages,
    )  # fmt: skip


def _streaming(redis: Any, total: int) -> bool:
    return any(int(group["entries-read"] or 0) > 0 for group in redis.xinfo_groups("bench"))


ALL: tuple[Contender, ...] = (
    _lumia("lumia", "Lumia", True),
    _lumia("lumia-unfused", "Lumia, one message per step", False),
    _celery_peer("celery-chain-threads", "Celery chain, threads", "threads", WORKERS, THREADS),
    _celery_peer("celery-chain-solo", "Celery chain, solo", "solo", WORKERS, 1),
    _celery_peer("celery-chain-prefork", "Celery chain, prefork", "prefork", 1, WORKERS),
    _celery_peer("celery-calls", "Celery, task calls task, solo", "solo", WORKERS, 1, "calls"),
    _other("dramatiq", "Dramatiq pipeline",
           (("dramatiq", "bench.peers.dramatiq_app", "--processes", str(WORKERS), "--threads", str(THREADS)),),
           lambda redis, total: redis.llen("dramatiq:bench") < total, _DRAMATIQ,
           "none: its Prometheus middleware is opt-in",
           (f"{WORKERS} processes × {THREADS} threads", "default middleware"), ("dramatiq", "redis", "hiredis")),
    _other("taskiq", "Taskiq pipeline, Redis streams",
           (("taskiq", "worker", "bench.peers.taskiq_app:broker", "--workers", str(WORKERS),
             "--log-level", "WARNING"),),
           _streaming, _TASKIQ, "none: its Prometheus middleware is opt-in",
           (f"{WORKERS} processes, async tasks, 100 at once (default)", "unacknowledged_lock_timeout = 10"),
           ("taskiq", "taskiq-redis", "taskiq-pipelines", "redis", "hiredis")),
    _other("huey", "Huey pipeline",
           tuple(("huey.bin.huey_consumer", "bench.peers.huey_app.huey", "-w", str(THREADS), "-k", "thread", "-q",
                  "-g", "TERM", "-n") for _ in range(WORKERS)),
           lambda redis, total: redis.llen("huey.redis.bench") < total, _HUEY,
           "none over the wire (signals in process)",
           (f"{WORKERS} processes × {THREADS} threads", "results = False"), ("huey", "redis", "hiredis")),
)  # fmt: skip


def chosen(peers: list[str] | None) -> list[Contender]:
    """Return Lumia and the contenders whose name begins with one of `peers`; all for None, Lumia alone for `none`."""
    if peers is None:
        return list(ALL)
    known = [one for one in ALL if not one.peer]
    wanted = [name for name in peers if name != "none"]
    for name in wanted:
        if not any(one.name.startswith(name) for one in ALL):
            raise SystemExit(f"error: no peer {name!r}; known: {', '.join(one.name for one in ALL if one.peer)}, none")
    return known + [one for one in ALL if one.peer and any(one.name.startswith(name) for name in wanted)]
