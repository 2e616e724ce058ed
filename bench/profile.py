"""Where the CPU time of a message goes: by function in the worker, by script and by command in Valkey.

    python -m bench.profile [--messages 2000] [--lanes 50] [--unfused] [--no-events] [--top 30] [--json FILE]

Two passes over the same backlog of 4-stage messages by one solo worker. The first one measures: CPU per message of
worker and Valkey, messages per second. The second one explains: the worker under cProfile (its absolute times are
inflated by the profiler, so shares are scaled to the first pass' CPU), Valkey with every call in its slow log.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pstats
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from redis import Redis

from bench import bot as bots
from bench.processes import cpu_seconds, running, wait_until
from tasks.scripts import NAMES, source
from tests.support import servers

LIMIT_SECONDS = 300.0
GROUPS = (  # the first part of the path that fits names the group
    ("lumia/", "lumia."), ("tasks/", "tasks."), ("bench/", "bench: the four stages"), ("/celery/", "celery"),
    ("/kombu/", "kombu"), ("/redis/", "redis client"), ("/hiredis/", "redis client"), ("/vine/", "kombu"),
    ("/json/", "json"), ("plugins/", "bench: the four stages"),
)  # fmt: skip

Function = tuple[str, int, str]


@dataclass
class Profile:
    """What a message costs. Times in microseconds per message; `functions`, `groups`: shares of the worker's CPU."""

    messages: int
    conditions: dict[str, Any]
    rate: float = 0.0
    worker_us: float = 0.0
    valkey_us: float = 0.0
    groups: dict[str, float] = field(default_factory=dict)
    functions: list[tuple[str, float, float]] = field(default_factory=list)
    scripts: dict[str, tuple[float, float]] = field(default_factory=dict)
    commands: dict[str, tuple[float, float]] = field(default_factory=dict)
    script_bytes: dict[str, int] = field(default_factory=dict)


def group_of(function: Function) -> str:
    """Return the group a function's time is counted in; "" for one of C, whose time belongs to its callers."""
    file, _, _ = function
    if file == "~":
        return ""
    short = file.replace(os.sep, "/")
    if "site-packages" not in short and "/lib/python" not in short:
        for part in ("lumia", "tasks"):
            if f"/{part}/" in short and short.endswith(".py"):
                return f"{part}.{Path(short).stem}"
    for part, name in GROUPS[2:]:
        if part in short:
            return name
    return f"python: {Path(short).stem}"


def busy(stats: pstats.Stats) -> dict[Function, float]:
    """Return each Python function's own seconds, with those of the C functions it calls."""
    found: dict[Function, float] = {}
    rows: dict[Function, Any] = stats.stats  # type: ignore[attr-defined]  # the documented table has no type
    for function, (_, _, own, _, callers) in rows.items():
        if group_of(function):
            found[function] = found.get(function, 0.0) + own
        else:
            for caller, figures in callers.items():
                found[caller] = found.get(caller, 0.0) + figures[2]
    return found


def calls(stats: pstats.Stats, function: Function) -> int:
    """Return how often a function was called."""
    rows: dict[Function, Any] = stats.stats  # type: ignore[attr-defined]
    return int(rows[function][1]) if function in rows else 0


def explain(profile: Profile, file: Path) -> None:
    """Fill in where the worker's CPU goes, scaled to what it used without the profiler."""
    stats = pstats.Stats(str(file))
    own = busy(stats)
    total = sum(own.values()) or 1.0
    scale = profile.worker_us / total
    for function, seconds in own.items():
        name = group_of(function) or "python: C"
        profile.groups[name] = profile.groups.get(name, 0.0) + seconds * scale
    profile.groups = dict(sorted(profile.groups.items(), key=lambda item: -item[1]))
    ranked = sorted(own.items(), key=lambda item: -item[1])
    profile.functions = [
        (f"{group_of(function)} {function[2]}:{function[1]}", seconds * scale,
         calls(stats, function) / profile.messages)
        for function, seconds in ranked
    ]  # fmt: skip


def shas() -> dict[str, str]:
    """Return sha1 → name of every script."""
    return {hashlib.sha1(source(name).encode()).hexdigest(): name for name in NAMES}


def by_script(log: list[dict[str, Any]], messages: int) -> dict[str, tuple[float, float]]:
    """Return calls and microseconds per message of each script in a slow log that holds every call."""
    names, found = shas(), dict[str, tuple[float, float]]()
    for entry in log:
        words = bytes(entry["command"]).split()
        if words[0].upper() != b"EVALSHA":
            continue
        name = names.get(words[1].decode(), "another script")
        count, usec = found.get(name, (0.0, 0.0))
        found[name] = (count + 1 / messages, usec + entry["duration"] / messages)
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def by_command(stats: dict[str, Any], messages: int) -> dict[str, tuple[float, float]]:
    """Return calls and microseconds per message of each command of INFO commandstats."""
    found = {
        name.removeprefix("cmdstat_"): (row["calls"] / messages, row["usec"] / messages) for name, row in stats.items()
    }
    return dict(sorted(found.items(), key=lambda item: -item[1][1]))


def run_worker(root: Path, url: str, valkey_pid: int, profile: Profile, file: Path | None) -> None:
    """Work off what waits with one worker; measure when `file` is None, else write its profile there."""
    redis: Any = Redis.from_url(url)
    env = {**os.environ, "LUMIA_ROOT": str(root), "LUMIA_REDIS_URL": url,
           "BENCH_EVENTS": "1" if profile.conditions["events"] else "0",
           "BENCH_PROFILE": str(file) if file else ""}  # fmt: skip
    redis.config_set("slowlog-max-len", 400_000 if file else 0)
    redis.config_set("slowlog-log-slower-than", 0 if file else -1)
    before = bots.done(redis)
    command = [sys.executable, "-m", "bench.profiled_worker", "-n", f"p{int(bool(file))}@%h"]
    with running([command], env, root / "worker.log") as workers:
        wait_until(lambda: bots.taken(redis, before), LIMIT_SECONDS, "the first message", workers)
        redis.config_resetstat()
        first, cpu, valkey, began = bots.done(redis), workers.cpu(), cpu_seconds(valkey_pid), time.monotonic()
        wait_until(lambda: bots.done(redis) >= before + profile.messages, LIMIT_SECONDS, "the last message", workers)
        count = profile.messages - (first - before)
        if file is None:
            profile.rate = count / (time.monotonic() - began)
            profile.worker_us = (workers.cpu() - cpu) / count * 1e6
            profile.valkey_us = (cpu_seconds(valkey_pid) - valkey) / count * 1e6
            profile.commands = by_command(redis.info("commandstats"), count)
    if file is not None:
        log = redis.slowlog_get(400_000)
        profile.scripts = by_script(log, profile.messages)


def measure(folder: Path, messages: int, lanes: int, *, fused: bool, events: bool) -> Profile:
    """Run both passes on a Valkey of their own."""
    settings = f"fuse = {str(fused).lower()}\nbatch = {64 if fused else 1}"
    profile = Profile(messages, {"lanes": lanes, "fused": fused, "events": events, "pool": "solo"})
    with servers.valkey(folder / "valkey") as server:
        root = bots.make_root(folder / "bot", settings)
        file = folder / "worker.pstats"
        for target in (None, file):
            with bots.opened(root, server.url):
                bots.accept(messages, lanes=lanes)
            run_worker(root, server.url, server.pid, profile, target)
        explain(profile, file)
        profile.script_bytes = {name: len(source(name)) for name in NAMES}
    return profile


def show(profile: Profile, top: int) -> str:
    """Return the report as text."""
    total = sum(profile.groups.values()) or 1.0
    cpu = f"CPU per message in µs: worker {profile.worker_us:.0f}, Valkey {profile.valkey_us:.0f}"
    lines = [
        f"{profile.messages} messages of 4 stages, one solo worker, {profile.conditions}",
        f"{profile.rate:.0f} messages/s; {cpu}",
        f"\n{'worker by group':66}{'µs/msg':>8}{'share':>9}",
    ]
    lines += [f"  {name:64}{us:8.1f}{us / total:9.1%}" for name, us in list(profile.groups.items())[:top]]
    lines.append(f"\n{'worker by function, with the C functions it calls':66}{'µs/msg':>8}{'calls/msg':>11}")
    lines += [f"  {name:64}{us:8.1f}{count:11.2f}" for name, us, count in profile.functions[:top]]
    lines += _served("Valkey by script (slow log)", profile.scripts, top)
    lines += _served("Valkey by command (INFO commandstats)", profile.commands, top)
    return "\n".join(lines)


def _served(title: str, rows: dict[str, tuple[float, float]], top: int) -> list[str]:
    head = f"\n{title:66}{'µs/msg':>8}{'calls/msg':>11}{'µs/call':>9}"
    found = list(rows.items())[:top]
    return [head, *(f"  {name:64}{us:8.1f}{count:11.2f}{us / max(count, 1e-9):9.1f}" for name, (count, us) in found)]


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--lanes", type=int, default=bots.LANES, help="0: messages without a lane")
    parser.add_argument("--unfused", action="store_true", help="one Celery message per step, no batches")
    parser.add_argument("--no-events", action="store_true", help="without task events")
    parser.add_argument("--top", type=int, default=30, help="rows of each table")
    parser.add_argument("--json", type=Path, help="write everything to this file, too")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="lumia-profile-") as name:
        profile = measure(Path(name), given.messages, given.lanes, fused=not given.unfused, events=not given.no_events)
    print(show(profile, given.top))
    if given.json:
        given.json.write_text(json.dumps(asdict(profile), indent=2) + "\n")


if __name__ == "__main__":
    main()
