"""One round of one contender: fill its queue, start its workers, measure throughput, CPU and latency, count messages.

Every contender goes the same way, with the same payload, on the same Valkey, emptied before.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis

from bench.contenders import Contender, Environment
from bench.processes import BenchError, Group, cpu_seconds, running, wait_until
from bench.stats import percentile
from lumia.paths import base
from tests.support.servers import Server

WARM = 100
LIMIT_SECONDS = 120.0
SETTLE_SECONDS = 0.3
SPARE_SECONDS = 20.0


@dataclass(frozen=True)
class Plan:
    """How long a round is. rates: messages per second by name; the rate of `half` is half of the round's saturation."""

    messages: int
    slow: int
    seconds: float
    throughput: bool = True
    latency: bool = True
    steady: float = 50.0

    def total(self, contender: Contender) -> int:
        """Return how many messages a contender gets: so many that a round takes it seconds."""
        return self.slow if contender.slow else self.messages


@dataclass(frozen=True)
class Latency:
    """From before a message is sent until its last stage has ended, in ms. offered, achieved: messages per second."""

    offered: float
    achieved: float
    samples: int
    p50: float
    p99: float


@dataclass
class Round:
    """What one round found. CPU in µs per message; in_flight: bytes of broker memory per waiting message."""

    accepted: float = 0.0
    in_flight: float = 0.0
    rate: float = 0.0
    worker_us: float = 0.0
    valkey_us: float = 0.0
    latency: dict[str, Latency] = field(default_factory=dict)


def settled_memory(redis: Any, *, alone: bool = True) -> int:
    """Return the used memory once it no longer changes; `alone`: and once nobody but us is connected."""
    if alone:
        wait_until(
            lambda: len(redis.client_list(_type="normal")) <= 1, LIMIT_SECONDS, "the load program's connections end"
        )
    before, found = 0, int(redis.info("memory")["used_memory"])
    while abs(found - before) > 64:
        time.sleep(0.05)
        before, found = found, int(redis.info("memory")["used_memory"])
    return found


def filled(contender: Contender, env: Environment, count: int) -> float:
    """Have the load program accept `count` messages; returns how many it accepted per second."""
    done = subprocess.run(contender.load("fill", str(count)), env=env, cwd=base(), capture_output=True, text=True,
                          timeout=LIMIT_SECONDS, check=False)  # fmt: skip
    if done.returncode:
        raise BenchError(f"{contender.name}: its load program failed: …{done.stderr[-500:]}")
    return float(done.stdout)


def run(contender: Contender, server: Server, folder: Path, plan: Plan) -> Round:
    """Run one round; raises `BenchError` when a message is missing or done twice."""
    redis: Any = Redis.from_url(server.url)
    redis.flushall()
    env = contender.environment(folder, server.url)
    found, total = Round(), 0
    if plan.throughput:
        filled(contender, env, WARM)
        before = settled_memory(redis)
        found.accepted = filled(contender, env, plan.total(contender))
        found.in_flight = (settled_memory(redis) - before) / plan.total(contender)
        total = WARM + plan.total(contender)
    elif contender.bot is not None:
        filled(contender, env, 1)  # publishes the routes
        total = 1
    with running(contender.commands(), env, folder / "workers.log") as workers:
        if total:
            _drain(contender, redis, server, workers, total, found)
        if plan.latency:
            total += _latencies(contender, redis, env, workers, folder, plan, found)
        time.sleep(SETTLE_SECONDS)
        if (seen := _done(contender, redis)) != total:
            raise BenchError(f"{contender.name}: {total} messages were sent, {seen} were done")
    redis.close()
    return found


def _done(contender: Contender, redis: Any) -> int:
    return int(redis.get(contender.done) or 0)


def _drain(contender: Contender, redis: Any, server: Server, workers: Group, total: int, found: Round) -> None:
    """Measure from the first message a worker takes to the end of the last one."""
    wait_until(lambda: contender.taken(redis, total), LIMIT_SECONDS, f"{contender.name} takes a message", workers)
    began, cpu, valkey = time.monotonic(), workers.cpu(), cpu_seconds(server.pid)
    wait_until(lambda: _done(contender, redis) >= total, LIMIT_SECONDS, f"{contender.name} does {total}", workers)
    found.rate = total / (time.monotonic() - began)
    found.worker_us = (workers.cpu() - cpu) / total * 1e6
    found.valkey_us = (cpu_seconds(server.pid) - valkey) / total * 1e6


def _latencies(contender: Contender, redis: Any, env: Environment, workers: Group, folder: Path, plan: Plan,
               found: Round) -> int:  # fmt: skip
    """Measure at the steady rate and at half of what this round found to be the most; returns the messages sent."""
    rates = {"steady": plan.steady}
    if found.rate:
        rates["half"] = found.rate / 2
    sent = 0
    for name, rate in rates.items():
        latency, count = _latency(contender, redis, env, workers, folder / f"{name}.txt", rate, plan.seconds)
        found.latency[name] = latency
        sent += count
    return sent


def _latency(contender: Contender, redis: Any, env: Environment, workers: Group, file: Path, rate: float,
             seconds: float) -> tuple[Latency, int]:  # fmt: skip
    before = _done(contender, redis)
    with _ends(contender.ended, redis) as ends:
        command = contender.load("rate", str(rate), str(seconds), str(file))
        done = subprocess.run(command, env=env, cwd=base(), capture_output=True, text=True,
                              timeout=seconds + LIMIT_SECONDS, check=False)  # fmt: skip
        if done.returncode:
            raise BenchError(f"{contender.name}: its load program failed: …{done.stderr[-500:]}")
        sent = [line.split() for line in file.read_text().splitlines()]
        wait_until(lambda: all(id_ in ends for id_, *_ in sent), SPARE_SECONDS, f"{contender.name} ends", workers)
    wait_until(lambda: _done(contender, redis) >= before + len(sent) + 1, SPARE_SECONDS, "all are done", workers)
    times = [(ends[id_] - float(began)) * 1000 for id_, began, _ in sent]
    span = float(sent[-1][1]) - float(sent[0][1])
    achieved = (len(sent) - 1) / span if span else 0.0
    return Latency(rate, achieved, len(times), percentile(times, 50), percentile(times, 99)), len(sent) + 1


@contextmanager
def _ends(channel: str, redis: Any) -> Iterator[dict[str, float]]:
    """Note when the channel tells the end of each message, on the system's monotonic clock."""
    found: dict[str, float] = {}
    over = threading.Event()
    listener = redis.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(channel)
    listener.get_message(timeout=5.0)  # subscribed from here on

    def listen() -> None:
        with suppress(ValueError, OSError):
            while not over.is_set():
                message = listener.get_message(timeout=0.2)
                if message is not None and message["type"] == "message":
                    found.setdefault(message["data"].decode(), time.monotonic())

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        listener.close()
