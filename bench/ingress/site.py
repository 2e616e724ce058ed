"""The two servers under load: Lumia's gateway with its webhook, and the peer; each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from redis import Redis

from bench import bot as bots
from bench.ingress import bare
from bench.processes import BenchError, Group, cpu_seconds, running, wait_until
from lumia.paths import base
from lumia.runtime import Runtime
from tasks.supervise.ports import free_port
from tasks.supervise.services import listens
from tests.support.servers import Server
from tests.support.workers import bot_root, first_party, write_plugin

KEYS = {"bearer": "token-of-the-bench", "hmac": "secret-of-the-bench"}
SOURCES = "".join(
    f'[sources.{name}]\n{"token" if name == "bearer" else "secret"} = "{key}"\n' for name, key in KEYS.items()
)
PLUGIN = """
import lumia

@lumia.pipe.on("msg")
def hear(content):
    lumia.utils.next()
"""
START_SECONDS = 30.0


@dataclass
class Site:
    """Servers that take the same posts. accepted: counts what Redis has of them."""

    name: str
    ports: list[int]
    path: str
    group: Group

    def accepted(self, redis: Any) -> int:
        """Return how many posts Redis holds."""
        if self.name == "bare":
            return int(redis.xlen(bare.STREAM))
        return sum(1 for _ in redis.scan_iter("lumia:dd:*", count=5000))


def made_root(folder: Path) -> Path:
    """Make a bot root with the webhook and one handler."""
    root = bot_root(folder)
    off = json.dumps([name for name in first_party() if name != "webhook"])
    (root / "config" / "lumia.toml").write_text(f"[plugins]\ndisabled = {off}\n")
    (root / "config" / "webhook.toml").write_text(SOURCES)
    write_plugin(root, "hearing", PLUGIN)
    return root


@contextmanager
def gateways(root: Path, url: str, count: int) -> Iterator[Site]:
    """Run so many gateways, which share a port."""
    port = free_port()
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url, "LUMIA__GATEWAY__PORT": str(port),
           "LUMIA__GATEWAY__PROCESSES": str(count)}  # fmt: skip
    with running([[sys.executable, "-m", "lumia.gateway"]] * count, env, root / "gateway.log") as group:
        pids = [process.pid for process in group.processes]
        wait_until(lambda: all(listens(pid, port) for pid in pids), START_SECONDS, "the gateways listen", group)
        _answers([port], "/healthz", group)
        yield Site("gateway", [port], "/webhook", group)


@contextmanager
def bare_app(folder: Path, url: str, count: int) -> Iterator[Site]:
    """Run so many of the peer, which share a port."""
    port = free_port()
    command = [sys.executable, "-m", "bench.ingress.bare", str(port)]
    with running([command] * count, {**os.environ, "BENCH_REDIS_URL": url}, folder / "bare.log") as group:
        pids = [process.pid for process in group.processes]
        wait_until(lambda: all(listens(pid, port) for pid in pids), START_SECONDS, "the peers listen", group)
        _answers([port], "/", group)
        yield Site("bare", [port], "/", group)


def _answers(ports: list[int], path: str, group: Group) -> None:
    def answered() -> bool:
        try:
            return all(httpx.get(f"http://127.0.0.1:{port}{path}", trust_env=False).is_success for port in ports)
        except httpx.HTTPError:
            return False

    wait_until(answered, START_SECONDS, "the servers answer", group)


@dataclass(frozen=True)
class Load:
    """One load. auth: how posts prove where they come from; rate: posts per second, 0 for as many as are answered."""

    auth: str
    seconds: float
    rate: float = 0.0
    connections: int = 64
    chats: int = 200


@dataclass(frozen=True)
class Result:
    """What a load found. rate: 2xx per second; ms: their times; cpu: µs per post of server, broker and load program."""

    rate: float
    ms: tuple[float, ...]
    cpu: Mapping[str, float]
    refused: Mapping[str, int]


class Broker:
    """The broker both servers write to."""

    def __init__(self, server: Server, bot: Runtime) -> None:
        self.server, self._bot = server, bot
        self.redis: Any = Redis.from_url(server.url)

    def empty(self) -> None:
        """Forget everything but the bot's handlers, which are published again as a worker would."""
        assert self._bot.plugins is not None
        self.redis.flushall()
        self._bot.transport.publish(self._bot.install(self._bot.plugins))


@contextmanager
def broker(root: Path, server: Server) -> Iterator[Broker]:
    """Give the broker, in which the bot's handlers are published."""
    with bots.opened(root, server.url) as bot:
        found = Broker(server, bot)
        yield found
        found.redis.close()


def measured(site: Site, broker: Broker, load: Load) -> Result:
    """Load a site and return what it accepted; raises `BenchError` when Redis holds another number of posts."""
    broker.empty()
    job = {
        "ports": site.ports, "path": site.path if site.name == "bare" else f"{site.path}/{load.auth}",
        "connections": load.connections, "seconds": load.seconds, "rate": load.rate, "auth": load.auth,
        "key": KEYS[load.auth], "chats": load.chats,
    }  # fmt: skip
    cpu = {"server": site.group.cpu(), "broker": cpu_seconds(broker.server.pid)}
    client = subprocess.Popen(
        [sys.executable, "-m", "bench.ingress.load", json.dumps(job)], stdout=subprocess.PIPE, cwd=base()
    )
    with client:
        assert client.stdout is not None
        told = client.stdout.read()
        usage = os.wait4(client.pid, 0)[2]
        client.returncode = 0
    site.group.check()
    if not told:
        raise BenchError("the load program failed")
    found = json.loads(told)
    answers = found["answers"]
    done = sum(number for status, number in answers.items() if status.startswith("2"))
    if site.accepted(broker.redis) != done:
        raise BenchError(f"{site.name}: {done} posts were answered with 2xx, Redis got {site.accepted(broker.redis)}")
    used = {
        "server": site.group.cpu() - cpu["server"],
        "broker": cpu_seconds(broker.server.pid) - cpu["broker"],
        "load": usage.ru_utime + usage.ru_stime,
    }
    return Result(
        done / found["seconds"], tuple(found["ms"]), {name: spent / max(1, done) * 1e6 for name, spent in used.items()},
        {status: number for status, number in answers.items() if not status.startswith("2")},
    )  # fmt: skip
