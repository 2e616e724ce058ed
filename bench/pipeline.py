"""A pipeline of four no-op stages against a Celery `chain` of four no-op tasks: same broker, same number of workers.

Both sides: a backlog is published first, then two worker processes are started; measured is from the first message
taken to the last one done, with task events on. Lumia's figure includes its journal, claims, lanes and commits.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from redis import Redis

from lumia.box import Box
from lumia.bus import pipe
from lumia.paths import base
from lumia.runtime import open_bot
from tests.support import servers
from tests.support.workers import bot_root, write_plugin

WORKERS = 2
THREADS = 8
TEXT = "x" * 180
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """One contender's figures. started: messages accepted per second by one process; done: completed per second."""

    name: str
    started: float
    done: float


def rate(begun: Callable[[], bool], counter: Callable[[], int], total: int, limit: float = 300.0) -> float:
    """Return completions per second, from the first message taken to the last of `total` done."""
    end = time.monotonic() + limit
    _until(begun, end)
    first = time.monotonic()
    _until(lambda: counter() >= total, end)
    return total / (time.monotonic() - first)


def _until(reached: Callable[[], bool], end: float) -> None:
    while not reached():
        if time.monotonic() > end:
            raise RuntimeError("the messages were not done in time; see the workers' log")
        time.sleep(0.01)


@contextmanager
def running(commands: list[list[str]], env: dict[str, str], log: Path) -> Iterator[None]:
    """Run processes for a block and end them by SIGTERM."""
    with log.open("wb") as out:
        processes = [subprocess.Popen(command, env=env, stdout=out, stderr=out, cwd=base()) for command in commands]
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(timeout=60)


def worker(app: str, name: str, *options: str) -> list[str]:
    """Return the command of one worker."""
    quiet = ["--loglevel", "WARNING", "--without-mingle", "--without-gossip", "-E", "-c", str(THREADS)]
    return [sys.executable, "-m", "celery", "-A", app, "worker", *quiet, "-n", f"{name}@%h", *options]


def lumia_figure(folder: Path, url: str, total: int, *, fused: bool) -> Figure:
    """Measure Lumia, fused and batched or with one Celery message per step."""
    name = "lumia" if fused else "lumia, one message per step"
    settings = f"fuse = {str(fused).lower()}\nbatch = {16 if fused else 1}"
    root = bot_root(folder / name.replace(", ", "-").replace(" ", "-"), settings=settings)
    write_plugin(root, "noop", (Path(__file__).parent / "noop_plugin.py").read_text())
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url}
    os.environ["LUMIA_REDIS_URL"] = url
    redis: Any = Redis.from_url(url)
    redis.flushdb()
    bot = open_bot(root)
    try:
        with running([worker("tasks", "first")], env, root / "first.log"):
            while bot.transport.routes() is None:
                time.sleep(0.05)
        with bot.activated():
            box, began = Box.any({"text": TEXT}), time.monotonic()
            for number in range(total):
                pipe.start("bench", box, key=f"group {number % 50}")
            started = total / (time.monotonic() - began)
        with running([worker("tasks", f"w{n}") for n in range(WORKERS)], env, root / "workers.log"):
            return Figure(name, started, rate(
                lambda: bool(redis.zcard("lumia:claims") or redis.get("lumia:s:noop//done")),
                lambda: int(redis.get("lumia:s:noop//done") or 0), total,
            ))  # fmt: skip
    finally:
        bot.close()


def chain_figure(folder: Path, url: str, total: int, pool: str) -> Figure:
    """Measure the Celery chain on a pool."""
    redis: Any = Redis.from_url(url)
    redis.flushdb()
    os.environ["BENCH_REDIS_URL"] = url
    from bench.chain_app import start

    began = time.monotonic()
    for _ in range(total):
        start({"text": TEXT})
    started = total / (time.monotonic() - began)
    commands = [worker("bench.chain_app", f"c{n}", "-P", pool) for n in range(WORKERS)]
    with running(commands, dict(os.environ), folder / f"chain-{pool}.log"):
        return Figure(f"celery chain ({pool})", started, rate(
            lambda: bool(redis.llen("chain") < total), lambda: int(redis.get("chain:done") or 0), total,
        ))  # fmt: skip


def report(figures: list[Figure], total: int) -> None:
    """Print the table and write it to bench/results/latest.json."""
    peer = next(figure for figure in figures if figure.name == "celery chain (threads)")
    print(f"\n{'':34}{'accepted/s':>12}{'done/s':>10}{'ratio':>8}")
    for figure in figures:
        print(f"{figure.name:34}{figure.started:12.0f}{figure.done:10.0f}{figure.done / peer.done:8.2f}")
    found = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("celery", "kombu", "redis", "hiredis")},
        "conditions": {"messages": total, "stages": 4, "workers": WORKERS, "threads": THREADS, "task_events": True},
        "figures": [asdict(figure) for figure in figures],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(found, indent=2) + "\n")


def main() -> None:
    """Run the comparison; the number of messages is the first argument (default 4000)."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
    with tempfile.TemporaryDirectory(prefix="lumia-bench-") as name:
        folder = Path(name)
        with servers.valkey(folder / "valkey") as server:
            figures = []
            contenders: list[Callable[[], Figure]] = [
                lambda: lumia_figure(folder, server.url, total, fused=True),
                lambda: lumia_figure(folder, server.url, total, fused=False),
                lambda: chain_figure(folder, server.url, total // 2, "threads"),
                lambda: chain_figure(folder, server.url, total // 2, "solo"),
            ]
            for measure in contenders:
                figures.append(measure())
                print(f"{figures[-1].name}: {figures[-1].done:.0f} messages/s", file=sys.stderr)
            report(figures, total)


if __name__ == "__main__":
    main()
