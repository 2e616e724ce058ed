"""The whole comparison: contenders in rotating order, then what only Lumia is asked."""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from redis import Redis

from bench import contenders, goals, handlers, lanes, memory, report, session, venvs
from bench.contenders import Contender
from bench.processes import BenchError
from lumia import __version__
from tests.support import servers

MEASURES = ("throughput", "latency", "memory", "handlers", "lanes")


@dataclass(frozen=True)
class Size:
    """How much is measured. messages: for Lumia fused; slow: for contenders of a few hundred a second."""

    rounds: int
    messages: int
    slow: int
    seconds: float
    waiting: int
    handlers: tuple[int, ...]
    lanes: tuple[int, ...]
    own_rounds: int
    own_messages: int


FULL = Size(3, 4000, 800, 3.0, 3000, handlers.SIZES, lanes.SIZES, 5, 300)
QUICK = Size(1, 300, 100, 1.0, 300, (10, 100), (1, 100), 1, 60)


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def run(size: Size, measures: Sequence[str], peers: list[str] | None) -> dict[str, Any]:
    """Measure, and return the content of latest.json."""
    began = time.monotonic()
    chosen, missing = _available(contenders.chosen(peers))
    found: dict[str, Any] = {
        "measured": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(),
        "versions": {"lumia": {"lumia": __version__}}, "conditions": _conditions(size, measures), "contenders": [],
    }  # fmt: skip
    with _broker() as (server, folder):
        rounds = _rounds(chosen, server, folder, size, measures, missing)
        redis: Any = Redis.from_url(server.url)
        info = redis.info("server")
        found["versions"]["valkey"] = {"valkey": info.get("valkey_version") or info["redis_version"]}
        found["versions"] |= _versions(chosen)
        found["contenders"] = [_entry(one, rounds.get(one.name, []), missing) for one in contenders.chosen(peers)]
    if "memory" in measures:
        say("memory per message")
        with _broker() as (server, folder):
            found["memory"] = memory.measure(server, folder, size.waiting).as_dict()
    for name, module, sizes in (("handlers", handlers, size.handlers), ("lanes", lanes, size.lanes)):
        if name in measures:
            with _broker() as (server, folder):
                grown: Any = module
                rows = grown.measure(server, folder, sizes, size.own_rounds, size.own_messages)
                found[name] = [row.as_dict() for row in rows]
    found["ratios"] = goals.ratios(found)
    found["goals"] = [asdict(goal) for goal in goals.judge(found)]
    found["seconds"] = round(time.monotonic() - began)
    return found


@contextmanager
def _broker() -> Iterator[tuple[servers.Server, Path]]:
    with tempfile.TemporaryDirectory(prefix="lumia-bench-") as name, servers.valkey(Path(name) / "valkey") as server:
        yield server, Path(name)


def _available(wanted: list[Contender]) -> tuple[list[Contender], dict[str, str]]:
    """Make the peers' environments; returns who can be measured, and why the others can't."""
    able, missing = [], dict[str, str]()
    failed: dict[str, str] = {}
    for one in wanted:
        try:
            if one.peer in failed:
                raise venvs.PeerMissing(failed[one.peer])
            one.python()
            able.append(one)
        except venvs.PeerMissing as error:
            failed[one.peer] = missing[one.name] = str(error)
            say(f"{one.title} is not measured: {error}")
    return able, missing


def _rounds(chosen: list[Contender], server: servers.Server, folder: Path, size: Size, measures: Sequence[str],
            missing: dict[str, str]) -> dict[str, list[session.Round]]:  # fmt: skip
    """Run every contender once per round, each round beginning with another one."""
    plan = session.Plan(size.messages, size.slow, size.seconds, "throughput" in measures, "latency" in measures)
    found: dict[str, list[session.Round]] = {}
    if not (plan.throughput or plan.latency):
        return found
    for number in range(size.rounds):
        turn = number * len(chosen) // size.rounds
        for one in chosen[turn:] + chosen[:turn]:
            if one.name in missing:
                continue
            place = folder / f"{one.name}-{number}"
            place.mkdir()
            try:
                done = session.run(one, server, place, plan)
            except BenchError as error:
                missing[one.name] = str(error)
                say(f"{one.title} is not measured: {error}")
                continue
            found.setdefault(one.name, []).append(done)
            say(f"round {number + 1} of {size.rounds}: {one.title}: {_short(done)}")
    return found


def _short(done: session.Round) -> str:
    parts = [f"{done.rate:.0f} messages/s"] if done.rate else []
    parts += [f"{name} p50 {one.p50:.1f} ms, p99 {one.p99:.1f} ms" for name, one in done.latency.items()]
    return "; ".join(parts)


def _entry(one: Contender, rounds: list[session.Round], missing: dict[str, str]) -> dict[str, Any]:
    """Return a contender's part of the results; figures of one that failed in any round don't count."""
    about = {
        "name": one.name, "title": one.title, "guarantee": vars(one.guarantee), "events": one.events,
        "settings": list(one.settings),
    }  # fmt: skip
    return {**about, "missing": missing[one.name]} if one.name in missing else {**about, **report.summary(rounds)}


def _versions(chosen: list[Contender]) -> dict[str, dict[str, str]]:
    """Return the packages of each environment."""
    return {one.peer or "lumia": venvs.versions(one.python(), one.packages) for one in chosen}


def _conditions(size: Size, measures: Sequence[str]) -> dict[str, Any]:
    return {
        "measures": list(measures), "rounds": size.rounds, "messages": size.messages, "messages_per_stage": size.slow,
        "seconds_per_rate": size.seconds, "stages": 4, "payload_bytes": 200, "workers": contenders.WORKERS,
        "threads": contenders.THREADS, "task_events": True, "appendonly": "everysec", "load": list(os.getloadavg()),
    }  # fmt: skip


def machine() -> dict[str, Any]:
    """Return what the figures were measured on."""
    processor = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), processor)
    return {
        "cores": os.cpu_count(), "processor": processor, "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}", "python": platform.python_version(),
    }  # fmt: skip


def dumps(found: dict[str, Any]) -> str:
    """Return the JSON text of the results."""
    return json.dumps(found, indent=2, ensure_ascii=False)
